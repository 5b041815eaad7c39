"""Live functions of matrices, layers, transport and rescaled tokens, beside the package."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from live_pairs import CLOSE, KINDS, SOLVED, Pair, compares, covariance
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import linear_sum_assignment
from scipy.spatial import ConvexHull

from attnflow import (
    attention,
)
from attnflow.flows import layers
from attnflow.geometry import dominant, rescaled_flow
from attnflow.kernels import squared_distances
from attnflow.matrices import root, spectral
from attnflow.rates import fit_rate
from attnflow.schemes import reflected
from attnflow.softmax import softmax_rows
from attnflow.transport import self_bridge, sinkhorn


@compares(
    "dot", "transpose", "times", "plus", "scaled", "diagonal", "identity", "mapped", "squaredDistance"
)  # fmt: skip
def linear_algebra(rng: np.random.Generator) -> Iterator[Pair]:
    A, B, x = rng.normal(size=(4, 3)), rng.normal(size=(3, 5)), rng.normal(size=(6, 3))
    yield Pair("attnflow.dot(a[0], a[1])", [x[0], x[1]], x[0] @ x[1])
    yield Pair("attnflow.transpose(a[0])", [A], A.T)
    yield Pair("attnflow.times(a[0], a[1])", [A, B], A @ B)
    yield Pair("attnflow.plus(a[0], a[1], 3)", [A, 2 * A], 7 * A)
    yield Pair("attnflow.scaled(a[0], 3)", [A], 3 * A)
    yield Pair("attnflow.diagonal(a[0])", [x[0]], np.diag(x[0]))
    yield Pair("attnflow.identity(4)", [], np.eye(4))
    yield Pair("attnflow.mapped(a[0], a[1])", [A, x], x @ A.T)
    yield Pair("attnflow.squaredDistance(a[0], a[1])", [x[0], x[1]], ((x[0] - x[1]) ** 2).sum())


@compares("symmetricEigen", "spectral", "root", "solve", "inverse", "expm", "norm")
def matrix_functions(rng: np.random.Generator) -> Iterator[Pair]:
    d = int(rng.integers(2, 6))
    S, A, B = covariance(rng, d), rng.normal(size=(d, d)), rng.normal(size=(d, 2))
    values, vectors = np.linalg.eigh(S)
    yield Pair("attnflow.symmetricEigen(a[0]).values", [S], values, SOLVED)
    yield Pair(
        "attnflow.symmetricEigen(a[0]).vectors.map((u, k) => Math.abs(attnflow.dot(u, a[1][k])))",
        [S, vectors.T], np.ones(d), SOLVED,
    )  # fmt: skip
    yield Pair("attnflow.spectral(a[0], s => Math.log(s))", [S], spectral(np.log, S))
    yield Pair("attnflow.root(a[0])", [S], root(S))
    yield Pair("attnflow.solve(a[0], a[1])", [A, B], np.linalg.solve(A, B), SOLVED)
    yield Pair("attnflow.inverse(a[0])", [S], np.linalg.inv(S), SOLVED)
    yield Pair("attnflow.expm(a[0])", [A], expm(A))
    yield Pair("attnflow.norm(a[0])", [A], np.linalg.norm(A, 2), SOLVED)


@compares("powerLaw")
def a_power_law(rng: np.random.Generator) -> Iterator[Pair]:
    x, y = np.sort(rng.uniform(1, 200, size=6)), rng.uniform(0.1, 50, size=6)
    found = fit_rate(x, y)
    yield Pair("attnflow.powerLaw(...a).slope", [x, y], found.slope)
    yield Pair("attnflow.powerLaw(...a).constant", [x, y], found.constant)


@compares("integrate")
def an_equation(rng: np.random.Generator) -> Iterator[Pair]:
    y = rng.normal(size=3)
    slope = "(t, y) => [y[1] * y[2], -y[0] * y[2] + Math.cos(t), -0.5 * y[0] * y[1]]"
    found = solve_ivp(
        lambda t, y: [y[1] * y[2], -y[0] * y[2] + np.cos(t), -0.5 * y[0] * y[1]],
        (0.5, 4.0), y, rtol=1e-12, atol=1e-14, method="DOP853",
    )  # fmt: skip
    call = f"attnflow.integrate({slope}, a[0], 0.5, 4, {{rtol: 1e-11}}).y"
    yield Pair(call, [y], found.y[:, -1], 1e-7)


@compares("softmaxRows", "attentionMatrix", "attentionVelocity", "kinds")
def one_layer(rng: np.random.Generator) -> Iterator[Pair]:
    n = int(rng.integers(3, 14))
    x, w = rng.normal(size=(n, 2)), rng.dirichlet(np.full(n, 3.0))
    Q, K, V = rng.normal(size=(3, 2, 2))
    scores = 300 * rng.normal(size=(n, n))
    yield Pair("attnflow.softmaxRows(a[0], false)", [scores], softmax_rows(scores.copy()))
    for kind, layer in KINDS.items():
        extra = {"eps": 0.7} if kind == "sinkhorn" else {}
        yield Pair(f"attnflow.kinds.includes('{kind}')", [], True)
        for causal in (False, True):
            for key, query in ((K, Q), (Q, Q)):
                ours = layer(query, key, V, causal, **extra)
                how = {"Q": query, "K": key, "V": V, "eps": 0.7, "causal": causal, "weights": w}
                args = [kind, x, how]
                tol = SOLVED if kind == "sinkhorn" else CLOSE
                yield Pair("attnflow.attentionMatrix(...a)", args, ours.matrix(x, w), tol)
                yield Pair("attnflow.attentionVelocity(...a)", args, ours.velocity(x, w), tol)


@compares("attentionStep")
def a_step_in_space(rng: np.random.Generator) -> Iterator[Pair]:
    """Heun's step is the mean of the slopes before and after one Euler layer of the package."""
    x, I = rng.normal(size=(9, 2)), np.eye(2)  # noqa: E741
    for kind in ("softmax", "L2"):
        layer = KINDS[kind](I, I, -I)
        ahead = layers(layer, x, depth=1, time=0.1).states[-1]
        ours = x + 0.05 * (layer.velocity(x) + layer.velocity(ahead))
        yield Pair(
            "attnflow.attentionStep(a[0], a[1], {Q: a[2], K: a[2], V: a[3]}, 0.1)",
            [kind, x, I, -I], ours,
        )  # fmt: skip


@compares("selfBridge", "bridgePlan", "barycentric", "bridgeStep")
def bridge(rng: np.random.Generator) -> Iterator[Pair]:
    for d in (1, 2, 3):
        n, eps = int(rng.integers(12, 60)), float(np.exp(rng.uniform(-3, 1)))
        x, w = rng.normal(size=(n, d)), rng.dirichlet(np.full(n, 3.0))
        x = np.sort(x, axis=0) if d == 1 else x
        ours = self_bridge(x, eps, w, tol=1e-12)
        call = "attnflow.{}(attnflow.selfBridge(a[0], a[1], a[2], 1e-12))"
        yield Pair(
            "attnflow.selfBridge(a[0], a[1], a[2], 1e-12).scaling",
            [x, eps, w],
            ours.scaling,
            SOLVED,
        )
        yield Pair(call.format("bridgePlan"), [x, eps, w], ours.plan(), CLOSE)
        yield Pair(call.format("barycentric"), [x, eps, w], ours.barycentric(), SOLVED)
        yield Pair(
            "attnflow.bridgeStep(a[0], a[1])",
            [x, 2.0],
            reflected(self_bridge(x, 2.0, tol=1e-12)),
            SOLVED,
        )


@compares("sinkhorn", "transportPlan", "assignment")
def plans(rng: np.random.Generator) -> Iterator[Pair]:
    n, m = int(rng.integers(3, 16)), int(rng.integers(3, 16))
    a, b = rng.dirichlet(np.full(n, 3.0)), rng.dirichlet(np.full(m, 3.0))
    for size in (0.5, 5.0, 100.0):
        scores = size * rng.normal(size=(n, m))
        ours = sinkhorn(scores, a, b, tol=1e-11)
        yield Pair("attnflow.sinkhorn(...a).plan", [scores, a, b], ours.plan(), SOLVED)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    cost = squared_distances(x, y)
    for eps in (0.02, 0.3, 4.0):
        ours = sinkhorn(-cost / (2 * eps), tol=1e-11)
        yield Pair("attnflow.transportPlan(...a).plan", [x, y, eps], ours.plan(), SOLVED)
    yield Pair("attnflow.assignment(a[0])", [cost], linear_sum_assignment(cost)[1])


@compares("rescaledVelocity", "rescaledStep", "convexHull", "leftEigenvector")
def rescaled(rng: np.random.Generator) -> Iterator[Pair]:
    n, t = int(rng.integers(6, 16)), float(rng.uniform(0.0, 1.0))
    z, turn = rng.normal(size=(n, 2)), rng.normal(size=(2, 2))
    first, second = sorted(rng.uniform(0.1, 1.5, size=2))[::-1]
    V = turn @ np.diag([first, second]) @ np.linalg.inv(turn)
    I, how = np.eye(2), {"Q": np.eye(2), "K": np.eye(2), "V": V, "eps": 0.5}  # noqa: E741
    for kind, layer in (
        ("softmax", attention.SoftmaxAttention(I, I, V)),
        ("sinkhorn", attention.SinkhornAttention(I, I, V, eps=0.5)),
    ):
        P = layer.matrix(z @ expm(t * V).T)
        ours = (P @ z - z) @ V.T
        yield Pair("attnflow.rescaledVelocity(...a)", [kind, z, t, how], ours, SOLVED)
    later = rescaled_flow(attention.SoftmaxAttention(I, I, V), z, [0.0, 2.0], rtol=1e-10).states[-1]
    many = (
        "((a) => { let z = a[0]; for (let k = 0; k < 200; k++) "
        "z = attnflow.rescaledStep('softmax', z, 0.01 * k, a[1], 0.01); return z; })(a)"
    )
    yield Pair(many, [z, how], later, 1e-6)
    corners = sorted(ConvexHull(z).vertices.tolist())
    yield Pair("attnflow.convexHull(a[0]).sort((p, q) => p - q)", [z], corners)
    along = dominant(V)[0]
    yield Pair(
        "Math.abs(attnflow.dot(attnflow.leftEigenvector(a[0], a[1]), a[2]))",
        [V, first, along / np.linalg.norm(along)], 1.0, SOLVED,
    )  # fmt: skip
