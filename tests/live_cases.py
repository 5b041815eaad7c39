"""What every live function must answer: a call in the browser beside what the package says.

`CASES` maps a name to a function that draws random inputs and gives pairs to compare. `NAMES` holds
which functions of _static/live/maths a case compares, so that none is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import linear_sum_assignment
from scipy.spatial import ConvexHull
from tolerances import ROUNDING

from attnflow import (
    attention,
    densities,
    differences,
    gaussian,
    langevin,
    line,
    lipschitz,
    norms,
    schemes,
    sphere,
)
from attnflow.flows import layers
from attnflow.geometry import dominant, rescaled_flow
from attnflow.kernels import squared_distances
from attnflow.line import LineGrid
from attnflow.matrices import root, spectral
from attnflow.rates import fit_rate
from attnflow.schemes import euler_path, reflected, score_error
from attnflow.softmax import softmax_rows
from attnflow.transport import self_bridge, sinkhorn

#: Sums of a few dozen terms in another order than numpy's.
CLOSE = 1e5 * ROUNDING
#: Two solvers that each stop at a residual of about 1e-10.
SOLVED = 1e-8
KINDS = {
    "softmax": attention.SoftmaxAttention,
    "L2": attention.L2Attention,
    "sinkhorn": attention.SinkhornAttention,
    "unnormalised": attention.UnnormalisedAttention,
}


class Pair(NamedTuple):
    """A function of the arguments a in JavaScript, its arguments, the package's answer."""

    call: str
    args: list[Any]
    ours: Any
    tol: float = CLOSE


CASES: dict[str, Callable[[np.random.Generator], Iterator[Pair]]] = {}
NAMES: set[str] = set()
Case = Callable[[np.random.Generator], Iterator[Pair]]


def compares(*names: str) -> Callable[[Case], Case]:
    def register(case: Case) -> Case:
        CASES[case.__name__] = case
        NAMES.update(names)
        return case

    return register


def on_sphere(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return sphere.uniform(n, d, rng)


def covariance(rng: np.random.Generator, d: int = 2) -> np.ndarray:
    F = rng.normal(size=(d, d))
    return F @ F.T + 0.3 * np.eye(d)


def mixture(rng: np.random.Generator, k: int = 3) -> tuple[dict[str, Any], Any]:
    w, m, v = rng.dirichlet(np.full(k, 5.0)), rng.normal(size=k) * 2, rng.uniform(0.3, 1.5, size=k)
    live = {"weights": w.tolist(), "means": m.tolist(), "vars": v.tolist()}
    return live, densities.GaussianMixture(w, m, v)


# --- matrices and equations ----------------------------------------------------------------------


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


# --- layers --------------------------------------------------------------------------------------


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


# --- transport -----------------------------------------------------------------------------------


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


# --- the sphere ----------------------------------------------------------------------------------


@compares("unit", "sphereVelocity", "sphereEnergy", "clusters")
def on_the_sphere(rng: np.random.Generator) -> Iterator[Pair]:
    n, d, beta = int(rng.integers(2, 40)), int(rng.integers(2, 6)), float(rng.uniform(0.1, 12))
    x, raw = on_sphere(rng, n, d), rng.normal(size=d)
    yield Pair("attnflow.unit(a[0])", [raw], raw / np.linalg.norm(raw))
    for causal in (False, True):
        for normalised in (True, False):
            yield Pair(
                "attnflow.sphereVelocity(...a)", [x, beta, {"causal": causal, "usa": not normalised}],
                sphere.velocity(x, beta, normalised, causal=causal),
            )  # fmt: skip
    yield Pair("attnflow.sphereEnergy(...a)", [x, beta], sphere.energy(x, beta))
    found = len(set(sphere.clusters(x, 0.05).tolist()))
    yield Pair("attnflow.clusters(a[0], 0.95)", [x], found)


@compares("sphereStep", "gramVelocity", "gramStep", "orthogonalGamma", "hittingTime")
def flows_on_the_sphere(rng: np.random.Generator) -> Iterator[Pair]:
    """Heun's method with step 0.01 errs by about 1e-5 at time two, order four by about 1e-9."""
    n, beta = int(rng.integers(3, 20)), float(rng.uniform(0.2, 6))
    x = on_sphere(rng, n, 3)
    later = sphere.flow(x, beta, [0.0, 2.0]).states[-1]
    many = "(a) => { let y = a[0]; for (let k = 0; k < 200; k++) y = attnflow.%s; return y; }"
    yield Pair("(" + many % "sphereStep(y, a[1], 0.01, {})" + ")(a)", [x, beta], later, 1e-4)
    G = x @ x.T
    args = [G.ravel(), n, beta]
    P = softmax_rows(beta * G)
    pull = P @ G
    s = np.diag(pull)
    slope = pull + pull.T - (s[:, None] + s) * G
    yield Pair("attnflow.gramVelocity(...a)", args, slope.ravel())
    gram = sphere.gram_flow(G, beta, [0.0, 2.0]).states[-1]
    yield Pair("(" + many % "gramStep(y, a[1], a[2], 0.01)" + ")(a)", args, gram.ravel(), 1e-7)
    yield Pair(
        "attnflow.orthogonalGamma(a[0], a[1], 5, 500)", [beta, n],
        sphere.gamma(beta, n, np.linspace(0, 5, 501)), 1e-8,
    )  # fmt: skip
    for b in (0.0, beta, 9.0):
        yield Pair(
            "attnflow.hittingTime(a[0], a[1], 1e-3)", [b, n], sphere.hitting_time(b, n, 1e-3), 1e-7
        )  # fmt: skip


@compares("normReading", "normPath", "normMeeting", "normLayer", "normDepth")
def four_normalisations(rng: np.random.Generator) -> Iterator[Pair]:
    beta, n, delta, gap = rng.uniform(0, 4), int(rng.integers(2, 500)), 0.1, rng.uniform(0.01, 1)
    read = norms.reading(gap, beta, n)
    yield Pair(
        "Object.values(attnflow.normReading(...a))", [gap, beta, n], [float(part) for part in read]
    )
    for norm in norms.NORMS:
        late = norms.log_meeting_time(norm, beta, n, delta)
        yield Pair("attnflow.normMeeting(...a)", [norm, beta, n, delta], late, 1e-6)
        yield Pair("attnflow.normPath(...a)[99]", [norm, beta, n, delta, 100],
                   [1 - delta, late], 1e-4)  # fmt: skip
        kept = norms.equiangular_layers(norm, beta, n, 1, step=0.7)
        yield Pair(
            "attnflow.normLayer([1, 1], ...a)", [norm, beta, n, 0.7],
            [kept.gaps[-1], kept.sizes[-1]],
        )  # fmt: skip
        depth = np.ceil(norms.layers_to_meet(norm, beta, n, delta, step=0.3))
        yield Pair("attnflow.normDepth(...a)", [norm, beta, n, delta, 0.3, 10**6], depth)


# --- rescaled tokens -----------------------------------------------------------------------------


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


# --- smoothness ----------------------------------------------------------------------------------


@compares("jvp", "vjp", "localConstant")
def stretching(rng: np.random.Generator) -> Iterator[Pair]:
    n, d = int(rng.integers(3, 12)), int(rng.integers(2, 4))
    x, e = rng.normal(size=(2, n, d))
    A, V = rng.normal(size=(2, d, d))
    layer = attention.SoftmaxAttention(A, np.eye(d), V)
    yield Pair("attnflow.jvp(...a)", [A, V, x, e], lipschitz.jvp(layer, x, e))
    yield Pair("attnflow.vjp(...a)", [A, V, x, e], lipschitz.vjp(layer, x, e))
    ours = lipschitz.local_constant(layer, x, tol=1e-10).value
    yield Pair("attnflow.localConstant(...a).value", [A, V, x], ours, 1e-6)


@compares(
    "upperBound", "tightUpperBound", "meanFieldUpper", "lipschitzGamma", "lowerBound", "oneLeader",
    "twoLeadersBound", "twoLeaders",
)  # fmt: skip
def bounds(rng: np.random.Generator) -> Iterator[Pair]:
    A, V, R, n = (
        np.diag(rng.normal(size=2)),
        rng.normal(size=(2, 2)),
        float(rng.uniform(0.5, 4)),
        17,
    )
    I = np.eye(2)  # noqa: E741
    yield Pair("attnflow.upperBound(...a)", [A, V, R, n], lipschitz.upper_bound(A, V, R, n), SOLVED)
    yield Pair(
        "attnflow.tightUpperBound(...a)", [A, V, R, n], lipschitz.tight_upper_bound(A, V, R, n), SOLVED
    )  # fmt: skip
    yield Pair(
        "attnflow.meanFieldUpper(...a)", [A, V, R], lipschitz.mean_field_upper(A, V, R), SOLVED
    )
    yield Pair("attnflow.lipschitzGamma(a[0])", [A], lipschitz.gamma(A))
    yield Pair("attnflow.lowerBound(...a)", [A, R, n], lipschitz.lower_bound(A, R, n))
    leader = lipschitz.adversarial(A, R, n)
    gram = "(x => attnflow.times(x, attnflow.transpose(x)))(attnflow.{}(...a))"
    yield Pair(gram.format("oneLeader"), [A, R, n], leader @ leader.T)
    first = "attnflow.dot(x[0], x[2]) < attnflow.dot(x[1], x[2])"
    swapped = f"(x => ({first} ? [x[1], x[0], ...x.slice(2)] : x))(attnflow.twoLeaders(...a))"
    ordered = f"(x => attnflow.times(x, attnflow.transpose(x)))({swapped})"
    for scores in (A[0, 0] * I, rng.normal(size=(2, 2))):
        ours = lipschitz.two_leaders_bound(scores, I, R, n)
        yield Pair("attnflow.twoLeadersBound(...a)", [scores, R, n], ours, SOLVED)
        pair = lipschitz.two_leaders(scores, I, R, n)
        if pair[0] @ pair[2] < pair[1] @ pair[2]:  # either leader may be the first
            pair[[0, 1]] = pair[[1, 0]]
        yield Pair(ordered, [scores, R, n], pair @ pair.T, SOLVED)


# --- Gaussian data -------------------------------------------------------------------------------


@compares("affineVelocity", "covarianceFlow", "blowUpTime")
def gaussian_tokens(rng: np.random.Generator) -> Iterator[Pair]:
    S, mean = covariance(rng), rng.normal(size=2)
    Q, K, V = rng.normal(size=(3, 2, 2))
    how = {"Q": Q, "K": K, "V": V, "eps": 0.7}
    for kind in ("softmax", "L2", "sinkhorn"):
        layer = KINDS[kind](Q, K, V, **({"eps": 0.7} if kind == "sinkhorn" else {}))
        B, c = gaussian.affine_velocity(layer, S, mean)
        args = [kind, S, mean, how]
        yield Pair("attnflow.affineVelocity(...a).B", args, B, SOLVED)
        yield Pair("attnflow.affineVelocity(...a).c", args, c, SOLVED)
        end = 0.05 if kind == "softmax" else 0.5
        flow = gaussian.gaussian_flow(layer, S / 4, [0.0, end])
        if not flow.stopped:
            yield Pair(
                "attnflow.covarianceFlow(...a).covs.pop()", [kind, S / 4, how, end], flow.covs[-1], 1e-6
            )  # fmt: skip
    I = np.eye(2)  # noqa: E741
    for value in (I, np.diag([1.0, 0.4]), np.array([[0.8, -0.5], [0.5, 0.8]])):
        ours = gaussian.blow_up_time(I, I, value, S)
        yield Pair(
            "attnflow.blowUpTime(a[0], {Q: a[1], K: a[1], V: a[2]}, 20)", [S, I, value], ours, 1e-5
        )


@compares("bridgeGain", "gaussianGap")
def gaussian_pairs(rng: np.random.Generator) -> Iterator[Pair]:
    for eps in (1e-2, 0.15, 3.0):
        var = float(rng.uniform(0.4, 2))
        gain = gaussian.bridge_gain(var, eps)[0, 0]
        yield Pair("attnflow.bridgeGain(...a)", [var, eps], gain)
        ours = gaussian.langevin_symmetric_kl(var, eps)
        yield Pair("attnflow.gaussianGap(...a) / a[2]", [var, eps, ours], 1.0, 1e-9)


@compares("coneOf")
def third_cases(rng: np.random.Generator) -> Iterator[Pair]:
    A, V, S = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), covariance(rng, 3)
    ours = gaussian.cone(A, V, S)
    yield Pair("Math.abs(attnflow.coneOf(...a).first)", [A, V, S], abs(ours.first), SOLVED)
    yield Pair("attnflow.coneOf(...a).exponent / a[3]", [A, V, S, ours.exponent], 1.0, SOLVED)
    axis = "Math.abs(attnflow.dot(attnflow.coneOf(a[0], a[1], a[2]).axis, a[3]))"
    yield Pair(axis, [A, V, S, ours.axis], 1.0, SOLVED)
    how = {"Q": A / 4, "K": np.eye(3), "V": V / 4}
    later, _ = gaussian.covariance_flow("softmax", A / 4, np.eye(3), V / 4, np.eye(3), 0.2)
    yield Pair(
        "attnflow.covarianceFlow(...a).covs.pop()", ["softmax", np.eye(3), how, 0.2], later, 1e-7
    )


@compares("coalesce", "captures")
def merges_on_the_circle(rng: np.random.Generator) -> Iterator[Pair]:
    angles = rng.uniform(0, 2 * np.pi, size=11)
    for squared in (True, False):
        ours = sphere.coalesce(angles, normalised=squared)
        for key, values in (
            ("level", ours.levels), ("kept", ours.kept), ("lost", ours.lost), ("place", ours.places),
        ):  # fmt: skip
            yield Pair(f"attnflow.coalesce(...a).map(e => e.{key})", [angles, squared], values)
    points = rng.random(size=60)
    rule = sphere.captures(points, 1.0)
    yield Pair("attnflow.captures(...a).radii.slice(1)", [points, 1.0], rule.radii[1:])
    yield Pair("attnflow.captures(...a).by", [points, 1.0], rule.by)


@compares("bridgeAmplification", "eulerAmplification", "jumpConstant", "jumpProfile")
def waves(rng: np.random.Generator) -> Iterator[Pair]:
    s = rng.uniform(0, 12, size=20)
    for name, ours in (
        ("bridge", schemes.bridge_amplification(s)),
        ("euler", schemes.euler_amplification(s)),
    ):
        yield Pair(f"a[0].map(s => attnflow.{name}Amplification(s))", [s], ours)
    eps, n = 0.02, int(rng.integers(1, 9))
    for m in range(4):
        density = schemes.Kinked(m)
        errors = schemes.linear_errors(density, eps, n * eps)[-1]
        here = float(density.heat_pdf(np.zeros(1), n * eps)[0])
        c = errors * np.sqrt(np.pi * here) / (density.jump * eps ** (m / 2 + 0.75))
        yield Pair("attnflow.jumpConstant(a[0], a[1]) / a[2]", [m, n, c], 1.0, 1e-4)
        # Parseval: the square of the profile has the integral c^2 / pi
        x = np.linspace(-40, 40, 1601)
        total = "attnflow.jumpProfile(a[0], a[1], a[2]).reduce((sum, p) => sum + p * p * 0.05, 0) / a[3]"
        yield Pair(total, [m, n, x, c**2 / np.pi], 1.0, 2e-2)


# --- heat ----------------------------------------------------------------------------------------


@compares(
    "mixtureDensity", "mixtureScore", "mixturePotential", "mixtureLog", "heated", "heatMap",
    "lineGrid", "gridDerivative",
)  # fmt: skip
def mixtures(rng: np.random.Generator) -> Iterator[Pair]:
    live, mix = mixture(rng)
    x = np.linspace(-6, 6, 41)
    yield Pair("attnflow.mixtureDensity(...a)", [live, x], mix.pdf(x))
    yield Pair("attnflow.mixtureLog(...a)", [live, x], mix.logpdf(x))
    yield Pair("attnflow.mixtureScore(...a)", [live, x], mix.score(x)[:, 0])
    yield Pair("attnflow.mixturePotential(...a)", [live, x], mix.potential(x))
    yield Pair(
        "attnflow.mixtureDensity(attnflow.heated(a[0], 0.7), a[1])", [live, x], mix.heat(0.7).pdf(x)
    )
    yield Pair("attnflow.heatMap(a[0], a[1], 0, 1, 200)", [live, x], mix.quantile_map(x, 1.0), 1e-7)
    yield Pair(
        "attnflow.gridDerivative(...a)", [np.sin(x), 0.3], differences.on_grid(np.sin(x), 0.3)
    )
    grid = line.uniform_nodes(mix, 0.2)
    for part, ours in (("x", grid.x), ("weights", grid.weights)):
        yield Pair(f"attnflow.lineGrid(a[0], 0.2, 10).{part}", [live], ours)


@compares("scoreEstimate", "eulerStep")
def layers_on_the_line(rng: np.random.Generator) -> Iterator[Pair]:
    live, mix = mixture(rng, 2)
    eps = float(rng.uniform(0.1, 0.4))
    grid = line.line_grid(mix, eps)
    bridge = self_bridge(grid.x, eps, grid.weights, tol=1e-12)
    ours = (bridge.barycentric()[:, 0] - grid.x) / eps
    seen = grid.rho > 1e-6
    yield Pair(
        "attnflow.scoreEstimate(a[0], a[1], a[2]).filter((_, i) => a[3][i])",
        [grid.x, eps, grid.weights, seen], ours[seen], 1e-6,
    )  # fmt: skip
    wrong = (
        "Math.sqrt(attnflow.scoreEstimate(a[0], a[1], a[2]).reduce((sum, s, i) => "
        "sum + a[2][i] * (s - attnflow.mixtureScore(a[3], [a[0][i]])[0] / 2) ** 2, 0))"
    )
    args = [grid.x, eps, grid.weights, live]
    yield Pair(wrong, args, score_error(mix, eps), 1e-6)
    small = 0.04 * float(mix.covs.min())
    path = euler_path(mix, small, small)
    yield Pair(
        "attnflow.eulerStep(a[0], a[1], a[2], a[3])",
        [path.nodes.x, small, mix.logpdf(path.nodes.x), path.nodes.h], path.states[1], SOLVED,
    )  # fmt: skip


@compares("evenGrid", "langevinPair", "bridgePair", "pairDivergence")
def pairs_of_times(rng: np.random.Generator) -> Iterator[Pair]:
    eps, apart, var = (
        float(rng.uniform(0.2, 1.5)),
        float(rng.uniform(0, 2)),
        float(rng.uniform(0.6, 1.2)),
    )
    live = {"weights": [0.5, 0.5], "means": [-apart, apart], "vars": [var, var]}
    mix = densities.GaussianMixture([0.5, 0.5], [-apart, apart], [var, var])
    h = line.line_grid(mix, eps).h
    make = "attnflow.evenGrid(a[0], a[2], 10)"
    n = int(np.ceil((apart + 10 * np.sqrt(var)) / h))
    x = h * (np.arange(2 * n) - n + 0.5)
    nodes = LineGrid(x, h, mix.pdf(x))
    args = [live, eps, h]
    yield Pair(make + ".x", args, x)
    first, second = langevin.langevin_pair(mix, eps, nodes), langevin.bridge_pair(eps, nodes)
    yield Pair(f"attnflow.langevinPair(a[0], a[1], {make})", args, first.ravel(), 1e-9)
    yield Pair(f"attnflow.bridgePair(a[1], {make})", args, second.ravel(), 1e-9)
    gap = (
        f"(grid => attnflow.pairDivergence(attnflow.langevinPair(a[0], a[1], grid), "
        f"attnflow.bridgePair(a[1], grid), a[1], grid) / a[3])({make})"
    )
    ours = langevin.symmetric_kl(mix, eps)
    yield Pair(gap, [*args, ours], 1.0, 1e-5)
