"""The coalescing model of clusters on the circle."""

import numpy as np
import pytest
from scipy.integrate import quad

from attnflow.sphere import (
    coalesce,
    merge_time,
    merges,
    pair_log_limit,
    pair_log_time,
    pair_place,
    place_shift,
)


@pytest.mark.parametrize("beta", [0.0, 3.0, 80.0, 400.0])
def test_equal_clusters_have_the_closed_form(beta):
    found = pair_log_time(beta, 1.3, 2.0, 2.0, 0.01)
    assert found == pytest.approx(np.log(merge_time(beta, 1.3, 0.01)), abs=1e-10)


@pytest.mark.parametrize("masses", [(1.0, 4.0), (5.0, 2.0)])
def test_time_and_place_are_those_of_the_flow(masses):
    found = merges([0.2, 1.1], 40.0, masses)
    assert np.log(found.times[0]) == pytest.approx(pair_log_time(40.0, 0.9, *masses), abs=1e-5)
    assert found.places[0] == pytest.approx(0.2 + pair_place(40.0, 0.9, *masses), abs=1e-6)


def test_what_one_cluster_does_not_turn_the_other_does():
    assert pair_place(30.0, 1.1, 2.0, 5.0) + pair_place(30.0, 1.1, 5.0, 2.0) == pytest.approx(1.1)


def test_the_limit_is_reached_at_the_rate_one_over_beta():
    off = [pair_log_time(b, 0.8, 1.0, 3.0) - pair_log_limit(b, 0.8, 1.0, 3.0) for b in (200, 400)]
    assert off[0] / off[1] == pytest.approx(2.0, abs=0.1)


def test_the_shift_is_a_polylogarithm():
    # for q < 1 the integral is sum_k (-1)^{k+1} q^k sqrt(pi / 2k)
    q = 2 * 9.0 / 82.0
    k = np.arange(1, 60)
    series = ((-1.0) ** (k + 1) * q**k * np.sqrt(np.pi / (2 * k))).sum()
    assert place_shift(9.0, 1.0) == pytest.approx(80 / 164 * series, rel=1e-10)
    assert place_shift(2.0, 2.0) == 0
    direct = quad(lambda u: 1 / (np.exp(u * u / 2) + 1), 0, 12)[0]
    assert direct == pytest.approx(np.sqrt(np.pi / 2) * (1 - np.sqrt(2)) * -1.4603545088, rel=1e-8)


def test_a_turned_or_mirrored_start_coalesces_alike():
    rng = np.random.default_rng(0)
    angles, masses = rng.uniform(0, 2 * np.pi, 9), rng.uniform(1, 3, 9)
    first = coalesce(angles, masses)
    for other in (coalesce(angles + 1.7, masses), coalesce(-angles, masses)):
        np.testing.assert_allclose(other.levels, first.levels, atol=1e-12)
        assert (other.lost == first.lost).all()
    assert first.heights[-1] == pytest.approx(1)
    assert np.isinf(first.margins[-1])
    assert (first.margins[:-1] > 0).all()


def test_the_limit_is_that_of_finite_temperatures():
    angles = [0.0, 0.5, 1.4, 3.3]
    cold = coalesce(angles)
    off = [np.abs(coalesce(angles, beta=b).levels - cold.levels).max() for b in (100.0, 400.0)]
    assert off[1] < off[0] / 2.5 < 0.03


def test_levels_are_what_a_naive_model_says():
    rng = np.random.default_rng(2)
    start = rng.uniform(0, 2 * np.pi, 7)
    x, m, levels = np.sort(start), np.ones(7), []
    while len(x) > 1:
        gaps = np.diff(x, append=x[0] + 2 * np.pi)
        k = int(gaps.argmin())
        levels.append(1 - np.cos(gaps[k]))
        x, m = np.roll(x, -k), np.roll(m, -k)
        place = x[0] + gaps[k] * m[1] ** 2 / (m[0] ** 2 + m[1] ** 2)
        x, m = np.append(x[2:], place) % (2 * np.pi), np.append(m[2:], m[0] + m[1])
        x, m = x[np.argsort(x)], m[np.argsort(x)]
    np.testing.assert_allclose(coalesce(start).levels, levels, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pair_log_time(5.0, 3.2, 1, 1), "below pi"),
        (lambda: pair_log_time(5.0, 1.0, 1, 1, 1.5), "below the angle"),
        (lambda: pair_log_time(5.0, 1.0, 0, 1), "m1"),
        (lambda: pair_log_limit(0.0, 1.0, 1, 1), "asymptotics"),
        (lambda: coalesce([0.0, np.pi]), "opposite"),
        (lambda: coalesce([0.0, 1.0], beta=5.0, normalised=False), "infinite"),
        (lambda: coalesce([0.0, 1.0], beta=0.0), "beta must be > 0"),
    ],
)
def test_bad_pairs_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_ratios_of_masses_alone_matter(size: float) -> None:
    angles, masses = [0.0, 1.0, 2.5], np.array([1.0, 3.0, 2.0])
    for beta in (np.inf, 9.0):
        found, want = (coalesce(angles, m, beta) for m in (size * masses, masses))
        for name in ("levels", "places", "heights"):
            assert getattr(found, name) == pytest.approx(getattr(want, name), rel=1e-12)
    for beta in (np.inf, 9.0):
        place = pair_place(beta, 1.0, 3.0 * size, 2.0 * size)
        assert place == pytest.approx(pair_place(beta, 1.0, 3.0, 2.0), rel=1e-12)
    late = pair_log_time(9.0, 1.0, 3.0 * size, 2.0 * size)
    assert late == pytest.approx(pair_log_time(9.0, 1.0, 3.0, 2.0), rel=1e-12)


def test_masses_that_are_nothing_beside_others_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^masses must not be below 1e-150 of the largest"):
        coalesce([0.0, 1.0], [1e-200, 1.0])
    with pytest.raises(ValueError, match=r"^m1 and m2 must not be below 1e-150 of the largest"):
        pair_place(1.0, 1.0, 1e200, 1.0)


def test_clusters_that_are_next_to_each_other_meet_by_their_masses() -> None:
    for angle in (1e-12, 1e-200, 1e-300):
        assert pair_place(5.0, angle, 1.0, 3.0) == pytest.approx(0.75 * angle, rel=1e-12)
    with pytest.raises(ValueError, match=r"^the angle must be at least 1e-300, got 1e-307"):
        pair_place(5.0, 1e-307, 1.0, 3.0)
