r"""Gaussian tokens stay Gaussian: the flows of their covariance and mean.

For :math:`x \sim N(\alpha, S)` each kind of attention has an affine velocity,
:math:`\Gamma(x) = B\,(x-\alpha) + c`, hence :math:`\dot S = BS + SB^\top` and
:math:`\dot\alpha = c` (Castin, Ablin, Carrillo, Peyré 2025). With :math:`A = K^\top Q`:

* softmax: :math:`B = VSA`, :math:`c = V(I + SA)\alpha`;
* L2: :math:`B = 2VTA`, :math:`c = VT(S^{-1} + 2A)\alpha`, :math:`T = (S^{-1} + 2K^\top K)^{-1}`;
* Sinkhorn with kernel :math:`e^{\kappa\langle Ax,y\rangle}`, :math:`\kappa = 1/\varepsilon`:
  :math:`B = 2\kappa\, V S^{1/2}(I + (I+4\kappa^2 M)^{1/2})^{-1}S^{1/2}A`,
  :math:`M = S^{1/2}ASA^\top S^{1/2}`, :math:`c = V\alpha`. No inverse is taken: A may be singular.

Several heads add up. The state is a factor F with :math:`S = FF^\top`, which follows
:math:`\dot F = BF`: small eigenvalues keep their digits beside large ones, and S stays positive.
Only softmax can blow up in finite time; the integration watches for it whatever the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.special import wrightomega

from attnflow import validate
from attnflow.attention import (
    Attention,
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
)
from attnflow.matrices import covariance, spectral
from attnflow.validate import Array

#: Growth of the covariance at which a flow is asked whether it blows up.
LARGE = 1e10
#: Growth at which a flow has diverged; and growth and condition number that together count as
#: divergence, since rounding would soon decide about the smaller eigenvalues. Sinkhorn attention
#: forms F^T A F, in which they differ twice as much.
HUGE = 1e100
UNEQUAL, UNEQUAL_SINKHORN = (1e12, 1e14), (1e8, 1e10)
#: Relative growth in the elapsed time that exponential growth cannot have at LARGE; and how much
#: faster the same cloud would grow if it were SCALE times as wide, which L2 and Sinkhorn attention
#: do not allow: their speed saturates.
EXPLOSIVE, SCALE, FASTER = 1e4, 1e20, 1e30
#: A flow that needs more velocities than this is too stiff for an explicit method.
MOST_EVALUATIONS = 100_000

Kind = Attention | MultiHead
KINDS = {"softmax": SoftmaxAttention, "L2": L2Attention, "sinkhorn": SinkhornAttention}


class GaussianFlow(NamedTuple):
    """Covariances and means along time, up to the end or to where the flow stopped."""

    times: Array  #: (m,)
    covs: Array  #: (m, d, d)
    means: Array  #: (m, d)
    stopped: (
        str  #: "" at the end; "blow-up"; "divergence": grown too far, though not in finite time
    )
    blow_up: float  #: the time of blow-up, inf where there is none within the horizon
    last: tuple[float, Array]  #: the last time reached and the covariance there
    evaluations: int

    @property
    def eigenvalues(self) -> Array:
        """Ascending, shape (m, d)."""
        return np.asarray(np.linalg.eigvalsh(self.covs), np.float64)


class Rank(NamedTuple):
    """How many eigenvalues stay, and by how much they stand above those that vanish."""

    rank: int
    margin: float  #: smallest kept over largest dropped; inf for full rank


def affine_velocity(attention: Kind, cov: ArrayLike, mean: ArrayLike) -> tuple[Array, Array]:
    """B and c with Gamma(x) = B (x - mean) + c for N(mean, cov).

    >>> I = np.eye(1)
    >>> affine_velocity(SoftmaxAttention(I, I, I), 2 * I, np.ones(1))
    (array([[2.]]), array([3.]))
    """
    S = covariance(cov)
    alpha = _mean(mean, len(S))
    _fits(attention, len(S))
    return _affine(attention, np.asarray(np.linalg.cholesky(S), np.float64), alpha)


def _affine(attention: Kind, F: Array, mean: Array) -> tuple[Array, Array]:
    """The same for the covariance F F^T, which may be singular."""
    if isinstance(attention, MultiHead):
        parts = [_affine(head, F, mean) for head in attention.heads]
        slope = sum(w @ B for w, (B, _) in zip(attention.W, parts, strict=True))
        shift = sum(w @ c for w, (_, c) in zip(attention.W, parts, strict=True))
        return np.asarray(slope), np.asarray(shift)
    A, V = attention.K.T @ attention.Q, attention.V
    if isinstance(attention, SoftmaxAttention):
        B = V @ F @ (F.T @ A)
        return B, V @ mean + B @ mean
    if isinstance(attention, L2Attention):
        # T = F (I + 2 F^T K^T K F)^{-1} F^T = X X^T with X = F R^{-1}, R^T R the middle factor,
        # found without squaring the condition number; T S^{-1} = I - 2 T K^T K
        stacked = np.vstack([np.eye(len(F)), np.sqrt(2) * attention.K @ F])
        X = solve_triangular(np.linalg.qr(stacked, mode="r"), F.T, trans="T", check_finite=False).T
        B = 2 * V @ (X @ (X.T @ A))
        seen = mean - 2 * X @ (X.T @ (attention.K.T @ (attention.K @ mean)))
        return B, V @ seen + B @ mean
    if isinstance(attention, SinkhornAttention):
        right = F.T @ A / attention.eps
        U, m, _ = np.linalg.svd(right @ F)
        shrink = (U * (2 / (1 + np.sqrt(1 + 4 * m**2)))) @ U.T
        return V @ (F @ (shrink @ right)), V @ mean
    raise ValueError(f"attention must be softmax, L2 or Sinkhorn, got {type(attention).__name__}")


def gaussian_flow(
    attention: Kind | Callable[[float], Kind], cov0: ArrayLike, times: ArrayLike,
    mean0: ArrayLike | None = None, *, rtol: float = 1e-10,
) -> GaussianFlow:  # fmt: skip
    """The Gaussian at increasing times from N(mean0, cov0) at times[0].

    `attention` is a layer, or a function that gives the layer of every time. Integrated by
    DOP853. A flow that blows up within the horizon, or diverges beyond what doubles resolve, stops there:
    later times are left out, and `last` is where it got to.

    >>> I = np.eye(1)
    >>> flow = gaussian_flow(SoftmaxAttention(I, I, I), 1.0, [0.0, 0.25, 1.0])
    >>> flow.covs.ravel().round(6), round(flow.blow_up, 6)
    (array([1., 2.]), 0.5)
    """
    S0 = covariance(cov0, "cov0")
    d, t = len(S0), validate.times(times)
    mean = np.zeros(d) if mean0 is None else _mean(mean0, d, "mean0")
    rtol = validate.positive(rtol, "rtol")
    budget = MOST_EVALUATIONS

    def layer(time: float) -> Kind:
        now = attention(time) if callable(attention) else attention
        _fits(now, d)
        return now

    layer(float(t[0]))
    size = float(np.sqrt(np.linalg.eigvalsh(S0)[-1]))
    wide = max(size, float(np.abs(mean).max()))
    kinds = [type(head) for head in _heads(layer(float(t[0])))]
    bounds = UNEQUAL_SINKHORN if SinkhornAttention in kinds else UNEQUAL

    def velocity(time: float, y: Array) -> Array:
        nonlocal budget
        budget -= 1
        if budget < 0:
            raise ArithmeticError(
                f"the flow is too stiff near t = {time:.6g}: more than {MOST_EVALUATIONS} velocities"
            )
        F, alpha = y[: d * d].reshape(d, d), y[d * d :]
        try:
            B, c = _affine(layer(time), F, alpha)
        except np.linalg.LinAlgError:  # a trial step that went too far
            return np.full(y.shape, np.nan)
        return np.concatenate([(B @ F).ravel(), c])

    def growth(F: Array) -> tuple[float, float]:
        """Of the covariance's norm, and its condition number."""
        sizes = np.linalg.svd(F, compute_uv=False)
        return (sizes[0] / size) ** 2, (sizes[0] / max(sizes[-1], 1e-150)) ** 2

    def large(_: float, y: Array) -> float:
        return float(np.linalg.norm(y[: d * d]) / size - np.sqrt(LARGE))

    def diverged(_: float, y: Array) -> float:
        if not np.isfinite(y).all() or np.abs(y[d * d :]).max() > HUGE * wide:
            return 1.0
        grown, condition = np.log(growth(y[: d * d].reshape(d, d)))
        unequal = min(grown - np.log(bounds[0]), condition - np.log(bounds[1]))
        return float(max(grown - np.log(HUGE), unequal))

    def speed(time: float, y: Array) -> float:
        """The relative growth of F; inf where it is too fast for numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.linalg.norm(velocity(time, y)[: d * d]) / np.linalg.norm(y[: d * d]))

    start, y = float(t[0]), np.concatenate([np.linalg.cholesky(S0).ravel(), mean])
    found, evaluations, blow_up, stopped = [y[None]], 0, np.inf, ""
    for events in ([large, diverged], [diverged]):
        for event in events:
            event.terminal = True  # type: ignore[attr-defined]
        with np.errstate(all="ignore"):
            run = solve_ivp(
                velocity, (start, t[-1]), y, method="DOP853", t_eval=t[t > start],
                rtol=rtol, atol=rtol * 1e-6 * size, events=events,
            )  # fmt: skip
        evaluations += run.nfev
        if len(run.t):
            found.append(run.y.T)
        if run.status == -1:
            raise ArithmeticError(f"the flow stopped before t = {t[-1]:g}: {run.message}")
        if run.status == 0:
            start, y = float(t[-1]), run.y[:, -1]
            break
        which = next(k for k, at in enumerate(run.t_events) if len(at))
        start, y = float(run.t_events[which][0]), run.y_events[which][0]
        rate = speed(start, y)
        explosive = rate * max(start - t[0], 1 / LARGE) > EXPLOSIVE
        if explosive and speed(start, SCALE * y) > FASTER * rate:
            stopped = "blow-up"
            blow_up = float(start + 0.5 / rate)  # |F|^2 is 1 / (2 rate (T - t)) where |S|' ~ |S|^2
            break
        if events[which] is diverged:
            stopped = "divergence"
            break
    states = np.concatenate(found)
    F = states[:, : d * d].reshape(-1, d, d)
    last = y[: d * d].reshape(d, d)
    with np.errstate(over="ignore", invalid="ignore"):  # where it diverged, beyond all numbers
        covs, final = F @ F.transpose(0, 2, 1), last @ last.T
    means = states[:, d * d :]
    return GaussianFlow(
        t[: len(states)], covs, means, stopped, blow_up, (start, final), evaluations
    )


def covariance_flow(
    kind: str, Q: ArrayLike, K: ArrayLike, V: ArrayLike, cov0: ArrayLike, t: float,
    mean0: ArrayLike | None = None, eps: float = 1.0,
) -> tuple[Array, Array]:  # fmt: skip
    """Covariance and mean at time t for "softmax", "L2" or "sinkhorn" (with `eps`).

    >>> covariance_flow("L2", 1.0, 1.0, 1.0, 1.0, 1.0)[0].round(7)
    array([[4.9573005]])
    """
    validate.choice(kind, "kind", tuple(KINDS))
    Q, K, V = (np.atleast_2d(validate.real(m, name)) for m, name in ((Q, "Q"), (K, "K"), (V, "V")))
    layer = SinkhornAttention(Q, K, V, eps=eps) if kind == "sinkhorn" else KINDS[kind](Q, K, V)
    t = validate.positive(t, "t")
    if t > validate.LONGEST:
        raise ValueError(f"t must be at most {validate.LONGEST:g}, got {t:g}")
    flow = gaussian_flow(layer, cov0, [0.0, t], mean0)
    if flow.stopped:
        at = flow.blow_up if flow.stopped == "blow-up" else flow.last[0]
        raise ArithmeticError(f"{flow.stopped} of the covariance at t = {at:.8g}, before t = {t}")
    return flow.covs[-1], flow.means[-1]


def blow_up_time(
    Q: ArrayLike, K: ArrayLike, V: ArrayLike, cov0: ArrayLike, *, horizon: float = 1e3
) -> float:
    r"""When the covariance under softmax attention blows up; inf where it does not.

    For V = vI it is :math:`1/\lambda_{\max}(S_0^{1/2}v(A+A^\top)S_0^{1/2})`. Else the flow is
    followed for `horizon` times :math:`1/(|V||A||S_0|)`, and no blow-up until then counts as none.

    >>> I = np.eye(2)
    >>> round(blow_up_time(I, I, I, [[1.0, 0.3], [0.3, 0.5]]), 8)
    0.43839941
    """
    Q, K, V = (np.atleast_2d(validate.real(m, name)) for m, name in ((Q, "Q"), (K, "K"), (V, "V")))
    horizon = validate.positive(horizon, "horizon")
    layer, S0 = SoftmaxAttention(Q, K, V), covariance(cov0, "cov0")
    _fits(layer, len(S0))
    A = layer.K.T @ layer.Q
    if np.array_equal(layer.V, layer.V[0, 0] * np.eye(len(S0))):
        root = spectral(np.sqrt, S0)
        with np.errstate(over="ignore", invalid="ignore"):
            rate = root @ (layer.V[0, 0] * (A + A.T)) @ root
        top = np.linalg.eigvalsh(validate.finite(rate, "rates of growth"))[-1]
        return float(1 / top) if top > 0 else np.inf
    speed = float(np.prod([np.linalg.norm(m, 2) for m in (layer.V, A, S0)]))
    if speed == 0:
        return np.inf
    end = horizon / speed
    return gaussian_flow(layer, S0, [0.0, end], rtol=1e-11).blow_up


def exact_variance(
    kind: str, t: float, var0: float, A: float, V: float, *, K: float = 1.0, eps: float = 1.0
) -> float:
    r"""The variance at time t in one dimension, exactly; inf from the blow-up on.

    Softmax: :math:`s_0/(1-2VAs_0t)`. L2: :math:`-1/s + 2K^2\log s` grows at the rate
    :math:`4VA`, solved by Wright's omega function. Sinkhorn: with :math:`\sinh\theta = 2|A|s/\varepsilon`,
    :math:`\theta - \coth(\theta/2)` grows at the rate :math:`2V\operatorname{sign}A`.

    >>> round(exact_variance("L2", 1.0, 1.0, A=1.0, V=1.0), 7)
    4.9573005
    """
    validate.choice(kind, "kind", tuple(KINDS))
    s, t = validate.positive(var0, "var0"), validate.number(t, "t")
    A, V, K = validate.number(A, "A"), validate.number(V, "V"), validate.number(K, "K")
    eps = validate.positive(eps, "eps")
    if kind == "softmax":
        left = 1 - 2 * V * A * s * t
        return s / left if left > 0 else np.inf
    if kind == "L2":
        k = 2 * K**2
        if k == 0:
            return exact_variance("softmax", 2 * t, s, A, V)
        constant = -1 / s + k * np.log(s) + 4 * V * A * t
        w = float(wrightomega(-constant / k - np.log(k)).real)
        return 1 / (k * w) if k * w > 1 / np.finfo(float).max else np.inf
    if A == 0:
        return s
    theta = np.arcsinh(2 * abs(A) * s / eps)
    target = theta - 1 / np.tanh(theta / 2) + 2 * V * np.sign(A) * t

    def rise(log_theta: float) -> float:
        x = np.exp(log_theta)
        return float(x - 1 / np.tanh(x / 2) - target)

    low = high = float(np.log(theta))
    while rise(low) > 0:
        low -= 1.0
    while rise(high) < 0:
        high += 1.0
    theta = np.exp(brentq(rise, low, high, xtol=1e-15, rtol=1e-14)) if low < high else theta
    with np.errstate(over="ignore"):
        return float(np.sinh(theta) * (eps / (2 * abs(A))))


def limit_rank(cov: ArrayLike, start: ArrayLike, *, tol: float = 1e-3) -> Rank:
    """The rank of a limit from a late covariance, in units of the covariance at the start.

    Eigenvalues of S relative to S0 below `tol` count as vanishing; the margin is the factor
    between the smallest that stays and the largest that goes, so that a reader sees how clear
    the decision was.

    >>> limit_rank([[1.0, 0.0], [0.0, 1e-6]], np.eye(2))
    Rank(rank=1, margin=1000000.0)
    """
    late = validate.array(cov, "cov", 2)
    first = covariance(start, "start")
    if late.shape != first.shape:
        raise ValueError(f"cov and start must share a shape, got {late.shape} and {first.shape}")
    if np.abs(late - late.T).max() > 1e-10 * np.abs(late).max():
        raise ValueError(f"cov must be symmetric, got a difference {np.abs(late - late.T).max()}")
    lowest = float(np.linalg.eigvalsh(late)[0])
    if lowest < -1e-10 * np.abs(late).max():
        raise ValueError(f"cov must be positive semi-definite, got an eigenvalue {lowest:.3g}")
    inverse = spectral(lambda s: s**-0.5, first)
    relative = inverse @ late @ inverse
    values = np.maximum(np.linalg.eigvalsh((relative + relative.T) / 2), np.finfo(float).tiny)
    rank = int((values > validate.between_zero_and_one(tol, "tol")).sum())
    d = len(values)
    if rank in (0, d):
        return Rank(rank, np.inf)
    with np.errstate(over="ignore"):
        return Rank(rank, float(values[d - rank] / values[d - rank - 1]))


def _mean(value: ArrayLike, d: int, name: str = "mean") -> Array:
    out = validate.array(np.atleast_1d(validate.real(value, name)), name, 1)
    if out.shape != (d,):
        raise ValueError(f"{name} must have {d} entries, one per coordinate, got shape {out.shape}")
    return out


def _heads(attention: Kind) -> tuple[Attention, ...]:
    return attention.heads if isinstance(attention, MultiHead) else (attention,)


def _fits(attention: Kind, d: int) -> None:
    heads = _heads(attention)
    out = attention.W[0].shape[0] if isinstance(attention, MultiHead) else len(attention.V)
    for head in heads:
        if head.causal:
            raise ValueError("a causal layer has no flow of covariances: tokens see other measures")
        if head.Q.shape[1] != d or out != d:
            raise ValueError(
                f"Q, K and V must map {d} coordinates as cov0 has, got Q {head.Q.shape} "
                f"and {out} outputs"
            )
