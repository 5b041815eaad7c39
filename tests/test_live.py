"""The laboratories are not a second truth: every live function says what the package says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tolerances import ROUNDING

from attnflow import sphere
from attnflow.book.chapters import find_project
from attnflow.softmax import softmax_rows

LIVE = find_project().book / "_static" / "live"
#: Sums of a few dozen terms of size e^beta, in another order than numpy's.
CLOSE = 1e5 * ROUNDING

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium on this machine: install it to test the pages in a browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        app = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu"]
        )
        page = app.new_page()
        for name in ("attention", "lab", "sphere"):
            page.add_script_tag(path=LIVE / f"{name}.js")
        yield page
        app.close()


def tokens(n: int, d: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("n", "d", "beta"), [(2, 2, 0.1), (16, 3, 4.0), (40, 5, 9.0)])
def test_velocity(page: Any, n: int, d: int, beta: float, causal: bool, normalised: bool) -> None:
    x = tokens(n, d, n)
    live = page.evaluate(
        "([x, beta, how]) => attnflow.sphereVelocity(x, beta, how)",
        [x.tolist(), beta, {"causal": causal, "usa": not normalised}],
    )
    ours = sphere.velocity(x, beta, normalised, causal=causal)
    assert np.abs(np.array(live) - ours).max() <= CLOSE * max(1.0, np.abs(ours).max())


@pytest.mark.parametrize("beta", [0.1, 4.0, 20.0])
def test_energy(page: Any, beta: float) -> None:
    x = tokens(24, 3, 1)
    live = page.evaluate("([x, beta]) => attnflow.sphereEnergy(x, beta)", [x.tolist(), beta])
    assert abs(live / sphere.energy(x, beta) - 1) <= CLOSE


def test_softmax_of_large_scores(page: Any) -> None:
    scores = np.random.default_rng(2).normal(size=(6, 6)) * 500
    live = page.evaluate("scores => attnflow.softmaxRows(scores, false)", scores.tolist())
    assert np.abs(np.array(live) - softmax_rows(scores.copy())).max() <= CLOSE


def test_a_path_of_steps_is_the_flow(page: Any) -> None:
    """Heun's method with step 0.01 is exact to about 1e-5 at time two."""
    x = tokens(12, 3, 3)
    live = page.evaluate(
        "x => { for (let k = 0; k < 200; k++) x = attnflow.sphereStep(x, 2, 0.01, {}); return x; }",
        x.tolist(),
    )
    ours = sphere.flow(x, 2.0, [0.0, 2.0]).tokens[-1]
    assert np.abs(np.array(live) - ours).max() <= 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_clusters_are_counted_as_the_package_counts_them(page: Any, seed: int) -> None:
    x = tokens(30, 2, seed)
    live = page.evaluate("x => attnflow.clusters(x, 0.99)", x.tolist())
    assert live == len(set(sphere.clusters(x, 0.01).tolist()))


def test_points_are_on_the_sphere_and_the_seed_decides(page: Any) -> None:
    make = "seed => attnflow.spherePoints(200, 3, seed)"
    x, again, other = (np.array(page.evaluate(make, seed)) for seed in (5, 5, 6))
    assert np.abs(np.linalg.norm(x, axis=1) - 1).max() <= CLOSE
    assert (x == again).all()
    assert not (x == other).any()
    assert np.abs(x.mean(axis=0)).max() <= 0.25  # four standard deviations of 1/sqrt(3 * 200)
