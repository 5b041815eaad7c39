"""The laboratories are not a second truth: every live function says what the package says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browsers import chromium
from live_cases import CASES, CLOSE, NAMES

from attnflow.book.chapters.project import find_project
from attnflow.book.pages.labs import MATHS

STATIC = find_project().book / "_static"
#: Functions that draw random numbers: no other generator gives the same, see the tests below.
RANDOM = {"random", "gaussian", "gaussians", "spherePoints", "mixtureSample"}
PLAIN = """([call, a]) => {
  const plain = (v) => ArrayBuffer.isView(v) ? Array.from(v) : Array.isArray(v) ? v.map(plain) : v;
  return plain(new Function("a", "return " + call)(a));
}"""

browser = pytest.mark.browser


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with chromium() as app:
        page = app.new_page()
        for name in MATHS:
            page.add_script_tag(path=STATIC / name)
        yield page


def listed(value: Any) -> Any:
    """Arrays as the lists that travel to the browser."""
    if isinstance(value, dict):
        return {key: listed(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@browser
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_a_live_function_says_what_the_package_says(page: Any, name: str, seed: int) -> None:
    count = 0
    for call, args, ours, tol in CASES[name](np.random.default_rng([seed, len(name)])):
        live = np.array(page.evaluate(PLAIN, [call, [listed(a) for a in args]]), dtype=float)
        ours = np.asarray(ours, dtype=float)
        assert live.shape == ours.shape, call
        if not np.array_equal(live, ours):  # both may be infinite
            wrong = np.abs(live - ours).max() / max(1.0, np.abs(ours).max())
            assert wrong <= tol, f"{call}: {wrong:.1e}"
        count += 1
    assert count


def test_every_live_function_is_compared() -> None:
    defined = {
        name
        for path in MATHS
        for name in re.findall(r"^  live\.(\w+) =", (STATIC / path).read_text("utf-8"), re.M)
    }
    assert defined == NAMES | RANDOM


@browser
def test_points_are_on_the_sphere_and_the_seed_decides(page: Any) -> None:
    make = "seed => attnflow.spherePoints(200, 3, seed)"
    x, again, other = (np.array(page.evaluate(make, seed)) for seed in (5, 5, 6))
    assert np.abs(np.linalg.norm(x, axis=1) - 1).max() <= CLOSE
    assert (x == again).all()
    assert not (x == other).any()
    assert np.abs(x.mean(axis=0)).max() <= 0.25  # four standard deviations of 1/sqrt(3 * 200)


@browser
def test_random_numbers_have_the_moments_they_should_have(page: Any) -> None:
    """Within five standard errors, 5 sqrt(m / 20000) for a moment of variance m."""
    u = np.array(page.evaluate("(r => Array.from({length: 20000}, r))(attnflow.random(3))"))
    assert ((u >= 0) & (u < 1)).all()
    assert abs(u.mean() - 0.5) <= 5 * np.sqrt(1 / 12 / 20000)
    g = np.array(page.evaluate("attnflow.gaussians(10000, 2, 4)")).ravel()
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((g**power).mean() - moment) <= 5 * np.sqrt(variance / 20000), power
    mix = {"weights": [0.25, 0.75], "means": [-2.0, 1.0], "vars": [0.25, 1.0]}
    x = np.array(page.evaluate("mix => attnflow.mixtureSample(mix, 20000, 5)", mix))
    assert (np.diff(x) >= 0).all()
    assert abs(x.mean() - 0.25) <= 5 * np.sqrt(2.5 / 20000)
    assert abs(x.var() - 2.5) <= 0.1
