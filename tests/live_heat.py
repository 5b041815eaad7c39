"""Live functions of the heat equation and its schemes, beside the package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from live_pairs import SOLVED, Pair, compares

from attnflow import (
    densities,
    differences,
    langevin,
    line,
    schemes,
)
from attnflow.line import LineGrid
from attnflow.schemes import euler_path, score_error
from attnflow.transport import self_bridge


def mixture(rng: np.random.Generator, k: int = 3) -> tuple[dict[str, Any], Any]:
    w, m, v = rng.dirichlet(np.full(k, 5.0)), rng.normal(size=k) * 2, rng.uniform(0.3, 1.5, size=k)
    live = {"weights": w.tolist(), "means": m.tolist(), "vars": v.tolist()}
    return live, densities.GaussianMixture(w, m, v)


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
