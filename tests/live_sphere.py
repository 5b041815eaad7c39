"""Live functions of tokens on the sphere, beside the package."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from live_pairs import Pair, compares

from attnflow import (
    norms,
    sphere,
)
from attnflow.softmax import softmax_rows


def on_sphere(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return sphere.uniform(n, d, rng)


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
