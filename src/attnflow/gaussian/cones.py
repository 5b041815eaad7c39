r"""Growth without blow-up: the long axis of the cloud settles on the cone :math:`\langle Ax,x\rangle = 0`.

Softmax attention sends the covariance along :math:`\dot S = VSAS + (\cdot)^\top`, which is quadratic, and
yet S may grow exponentially. Then to leading order :math:`S = e^{2\rho t}uu^\top + M`, and comparing the
powers of :math:`e^{2\rho t}` leaves, with :math:`w = V^{-1}u`,

.. math:: \langle u, Au\rangle = 0, \qquad \langle u, Aw\rangle = 0, \qquad
    \rho = \frac{\langle Au, M\,Au\rangle}{\langle Au, w\rangle}.

The axis u is a common zero of two quadratic forms of the layer. On the line and in the plane there is
none in general; in space there are at most four. This is the book's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.attention.layer import Layer
from attnflow.gaussian.flow import gaussian_flow
from attnflow.validate import Array

#: Roots of the polynomial on the unit circle are this close to it.
ON_CIRCLE = 1e-6
#: Growth of the largest eigenvalue at which an exponent is read, and how many moments are looked at.
FAR, MOMENTS = 1e8, 2001


class Cone(NamedTuple):
    """How far a large covariance is from the third case, and the exponent that belongs to it.

    >>> shape = cone(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2), np.diag([1e6, 1.0]))
    >>> shape.first, shape.exponent
    (0.0, inf)
    """

    axis: Array  #: u, the top eigenvector, (d,)
    first: float  #: ``<u, Au> / |Au|``
    second: float  #: ``<u, Aw> / (|A^T u| |w|)`` with ``w = V^{-1} u``
    exponent: float  #: of the standard deviation along u; inf where <Au, w> is 0


def cone(A: ArrayLike, V: ArrayLike, cov: ArrayLike) -> Cone:
    r"""The axis of a large covariance, its place beside the cone, and :math:`\rho`.

    M enters through :math:`\langle Au, M\,Au\rangle`, where :math:`uu^\top` is taken out of S: on the cone
    Au is orthogonal to u.

    >>> A, V = [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, -1.0]], np.eye(3)
    >>> cone(A, V, np.diag([1e8, 1.0, 1e-9])).axis
    array([1., 0., 0.])
    """
    S = validate.array(cov, "cov", 2)
    A, V = _layer(A, V, S.shape)
    if np.abs(S - S.T).max() > 1e-10 * np.abs(S).max():
        raise ValueError(f"cov must be symmetric, got a difference {np.abs(S - S.T).max()}")
    values, vectors = np.linalg.eigh(S)
    u = vectors[:, -1] * np.sign(vectors[np.abs(vectors[:, -1]).argmax(), -1])
    w, sent = np.linalg.solve(V, u), A @ u
    rest = (vectors[:, :-1] * values[:-1]) @ vectors[:, :-1].T
    tiny = np.finfo(float).tiny
    back = sent @ w
    return Cone(
        u,
        float(u @ sent / max(np.linalg.norm(sent), tiny)),
        float(u @ A @ w / max(np.linalg.norm(A.T @ u) * np.linalg.norm(w), tiny)),
        float(sent @ rest @ sent / back) if back else np.inf,
    )


class Growth(NamedTuple):
    """How fast the standard deviation along the long axis grows, and the covariance there.

    >>> from attnflow.attention import SoftmaxAttention
    >>> I = np.eye(1)
    >>> round(growth(SoftmaxAttention(I, I, I), 1.0, 0.4).rate, 1)  # 1 / (1 - 2t)
    5.0
    """

    rate: float
    time: float
    cov: Array  #: (d, d)


def growth(attention: Layer, cov0: ArrayLike, until: float, *, rtol: float = 1e-8) -> Growth:
    """The rate of growth where the largest eigenvalue has grown by FAR, or at the end if before.

    There both what is left of faster terms and the rounding of the short axes are small.

    >>> from attnflow.attention import SoftmaxAttention
    >>> shear = SoftmaxAttention([[0, 1], [-1, 0]], np.eye(2), [[0, -1], [0, 0]])
    >>> round(growth(shear, np.diag([0.7, 0.5]), 30.0).rate, 6)  # S = diag(0.7 e^t, 0.5)
    0.5
    """
    times = np.linspace(0.0, validate.positive(until, "until"), MOMENTS)
    flow = gaussian_flow(attention, cov0, times, rtol=rtol)
    top = flow.eigenvalues[:, -1]
    if len(top) < 3:
        raise ValueError(f"until must lie well before the end of the flow, got {until}")
    k = int(np.clip(np.searchsorted(top, FAR * top[0]), 1, len(top) - 2))
    rate = np.log(top[k + 1] / top[k - 1]) / (2 * (flow.times[k + 1] - flow.times[k - 1]))
    return Growth(float(rate), float(flow.times[k]), flow.covs[k])


def cone_axes(A: ArrayLike, V: ArrayLike) -> Array:
    r"""In space: all unit vectors u, up to sign, with :math:`\langle u,Au\rangle = \langle u,AV^{-1}u\rangle = 0`.

    Two conics meet in at most four points. The first is parametrised by an angle; the second is then
    a trigonometric polynomial of degree two, whose roots are those of a polynomial of degree four.
    Where A has a definite symmetric part there is none. Shape (number, 3).

    >>> cone_axes(np.diag([1.0, 1.0, -2.0]), np.diag([1.0, -1.0, 2.0])).round(6).shape
    (4, 3)
    """
    A, V = _layer(A, V, (3, 3))
    first = (A + A.T) / 2
    second = A @ np.linalg.inv(V)
    values, vectors = np.linalg.eigh(first)
    if values[1] < 0:
        values, vectors = -values[::-1], vectors[:, ::-1]
    if not (values[0] < 0 < values[1]):
        return np.empty((0, 3))
    angle = 2 * np.pi * np.arange(5) / 5
    points = _on_cone(angle, values, vectors)
    heights = np.einsum("ki,ij,kj->k", points, second, points)
    waves = np.fft.fft(heights) / 5  # of e^{0i}, e^{1i}, e^{2i}, e^{-2i}, e^{-1i}
    roots = np.roots(waves[[2, 1, 0, 4, 3]])
    angles = np.angle(roots[np.abs(np.abs(roots) - 1) < ON_CIRCLE])
    found = _on_cone(np.sort(angles), values, vectors)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def _on_cone(angle: Array, values: Array, vectors: Array) -> Array:
    """Points of the cone of a form with one negative eigenvalue, one on every line."""
    flat = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)], axis=1)
    return flat / np.sqrt(np.abs(values)) @ vectors.T


def _layer(A: ArrayLike, V: ArrayLike, shape: tuple[int, ...]) -> tuple[Array, Array]:
    A, V = validate.array(A, "A", 2), validate.array(V, "V", 2)
    for name, M in (("A", A), ("V", V), ("cov", np.empty(shape))):
        if M.shape != (shape[0], shape[0]) or not M.size:
            raise ValueError(f"{name} must be {shape[0]} by {shape[0]}, got shape {M.shape}")
    sizes = np.linalg.svd(V, compute_uv=False)
    if sizes[-1] <= np.finfo(float).eps * sizes[0]:
        raise ValueError(f"V must be invertible, got a singular value {sizes[-1]:.3g}")
    return A, V
