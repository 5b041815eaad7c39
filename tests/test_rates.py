"""Rates from log-log fits: the slope, its interval, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.stats import linregress, t
from tolerances import EXPONENTIAL, ROUNDING

from attnflow.rates import fit_decay, fit_rate

H = np.geomspace(1e-3, 1e-1, 12)


@pytest.mark.parametrize("slope", [-1.0, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("constant", [1e-6, 1.0, 300.0])
def test_an_exact_power_law_is_recovered(slope: float, constant: float) -> None:
    rate = fit_rate(H, constant * H**slope)
    assert rate.slope == pytest.approx(slope, abs=EXPONENTIAL)
    assert rate.constant == pytest.approx(constant, rel=EXPONENTIAL)
    assert rate.interval == pytest.approx((slope, slope), abs=1e-6)  # sqrt of rounding in 1 - r^2


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_the_interval_covers_the_slope_as_often_as_it_says(slope: float) -> None:
    rng = np.random.default_rng(20)
    for level in (0.5, 0.95):
        hits = 0
        for _ in range(400):
            error = 3.0 * H**slope * np.exp(0.1 * rng.normal(size=H.size))
            low, high = fit_rate(H, error, level=level).interval
            hits += low <= slope <= high
        # four standard deviations of a binomial with 400 draws
        assert abs(hits / 400 - level) < 4 * math.sqrt(level * (1 - level) / 400)


def test_the_interval_is_students_around_the_least_squares_slope() -> None:
    error = 2.0 * H**1.5 * np.exp(0.2 * np.random.default_rng(3).normal(size=H.size))
    x, y = np.log(H), np.log(error)
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    spread = math.sqrt(float(np.sum((y - y.mean() - slope * x) ** 2)) / (len(x) - 2) / (x @ x))
    half = t.ppf(0.975, len(x) - 2) * spread
    rate = fit_rate(H, error)
    assert rate.slope == pytest.approx(slope, rel=EXPONENTIAL)
    assert rate.interval == pytest.approx((slope - half, slope + half), rel=1e-9)


def test_what_does_not_grow_has_slope_zero_for_certain() -> None:
    """Equal values leave no residual, and no doubt."""
    fit = fit_rate([1.0, 2.0, 4.0, 8.0], [7.9372539331937713] * 4)
    assert abs(fit.slope) <= ROUNDING
    assert fit.interval[1] - fit.interval[0] <= 1e-12
    assert fit.interval[0] <= fit.slope <= fit.interval[1]


def test_the_fit_agrees_with_scipys() -> None:
    rng = np.random.default_rng(3)
    for h in (np.geomspace(1e-6, 1e-2, 7), 1e9 * (1 + 1e-3 * np.arange(1, 6))):
        error = h**1.3 * np.exp(0.1 * rng.normal(size=len(h)))
        fit, line = fit_rate(h, error), linregress(np.log(h), np.log(error))
        half = (fit.interval[1] - fit.interval[0]) / 2
        wanted = t.ppf(0.975, len(h) - 2) * line.stderr
        assert abs(fit.slope - line.slope) <= 1e-9 * wanted
        assert abs(half / wanted - 1) <= 1e-9


def test_a_higher_level_gives_a_wider_interval() -> None:
    error = H * np.exp(0.1 * np.random.default_rng(5).normal(size=H.size))
    spans = [np.diff(fit_rate(H, error, level=level).interval)[0] for level in (0.5, 0.9, 0.99)]
    assert spans[0] < spans[1] < spans[2]


def test_scaling_h_leaves_the_slope_and_the_interval() -> None:
    error = H**2 * np.exp(0.1 * np.random.default_rng(6).normal(size=H.size))
    a, b = fit_rate(H, error), fit_rate(8.0 * H, error)
    assert a.slope == pytest.approx(b.slope, rel=100 * ROUNDING)
    assert a.interval == pytest.approx(b.interval, rel=100 * ROUNDING)


@pytest.mark.parametrize(
    ("h", "error", "says"),
    [
        ([0.1, 0.2], [1.0, 2.0], "h and error must be at least 3 points each, got 2 and 2"),
        ([0.1, 0.2, 0.4], [1.0, 2.0], "got 3 and 2"),
        ([0.0, 0.2, 0.4], [1.0, 2.0, 3.0], "must be > 0, got 0"),
        ([0.1, 0.2, 0.4], [1.0, -2.0, 3.0], "must be > 0, got -2"),
        ([0.1, 0.2, 0.4], [1.0, 0.0, 3.0], "must be > 0, got 0"),
        ([0.1, math.nan, 0.4], [1.0, 2.0, 3.0], "h must be finite, got nan"),
        ([0.1, 0.2, 0.4], [1.0, math.inf, 3.0], "error must be finite, got inf"),
        ([[0.1, 0.2, 0.4]], [[1.0, 2.0, 3.0]], "h must have 1 axes"),
        (["a", "b", "c"], [1.0, 2.0, 3.0], "h must be an array of real numbers"),
        ([0.1, 0.1, 0.1], [1.0, 2.0, 3.0], "identical|differ|distinct"),
    ],
)
def test_what_is_no_set_of_positive_points_is_refused(
    h: ArrayLike, error: ArrayLike, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        fit_rate(h, error)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, math.nan])
def test_a_level_that_is_no_probability_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        fit_rate([0.1, 0.2, 0.4], [1.0, 2.0, 3.0], level=level)


@pytest.mark.parametrize("faster", [(), (1 / 6,), (1 / 6, 1 / 4)])
def test_a_decay_is_told_from_its_transients(faster: tuple[float, ...]) -> None:
    times = np.linspace(3.0, 40.0, 60)
    transient = sum((0.02 * np.exp(-k * times) for k in faster), start=np.zeros(60))
    fit = fit_decay(times, 5.0 * np.exp(-0.5 * times + transient), faster=faster)
    assert fit.slope == pytest.approx(0.5, abs=1e-8)
    assert fit.constant == pytest.approx(5.0, rel=1e-6)
    assert fit.interval[0] <= fit.slope <= fit.interval[1]
    if faster:
        assert abs(fit_decay(times, 5.0 * np.exp(-0.5 * times + transient)).slope - 0.5) > 1e-6


def test_the_interval_of_a_decay_covers_it() -> None:
    rng, times = np.random.default_rng(3), np.linspace(0.0, 10.0, 40)
    hits = 0
    for _ in range(300):
        low, high = fit_decay(times, np.exp(-0.7 * times + 0.1 * rng.normal(size=40))).interval
        hits += low <= 0.7 <= high
    assert abs(hits / 300 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 300)


@pytest.mark.parametrize(
    ("times", "values", "faster", "level", "words"),
    [
        ([0.0, 1.0], [1.0, 0.5], (), 0.95, "at least 3 points"),
        ([0.0, 1.0, 2.0], [1.0, 0.5, 0.2], (0.5,), 0.95, "at least 4 points"),
        ([0.0, 1.0, 2.0], [1.0, 0.5, 0.0], (), 0.95, "must be > 0"),
        ([0.0, 1.0, 2.0, 3.0], [1.0, 0.5, 0.2, 0.1], (-1.0,), 0.95, "must be > 0"),
        ([0.0, 1.0, 2.0], [1.0, 0.5, 0.2], (), 1.0, "level"),
    ],
)
def test_decays_that_cannot_be_fitted(
    times: list[float], values: list[float], faster: tuple[float, ...], level: float, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        fit_decay(times, values, faster=faster, level=level)


@pytest.mark.parametrize(
    "h", [[0.1, 0.1, 0.1], [1.0, 1.0, 1.0], [1e5, np.nextafter(1e5, 2e5), 1e5]]
)
def test_points_that_do_not_differ_have_no_rate(h):
    with pytest.raises(ValueError, match=r"^h must have values that differ, got"):
        fit_rate(h, [1.0, 2.0, 3.0])
