"""Live functions of Lipschitz constants and of Gaussian tokens, beside the package."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from live_pairs import KINDS, SOLVED, Pair, compares, covariance

from attnflow import (
    attention,
    gaussian,
    lipschitz,
)


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
