"""Who leads in a decoder, and Renyi's parking."""

import numpy as np
import pytest

from attnflow.sphere import captures, merges, park, parking_density


def by_merging(x: np.ndarray, radius: float) -> set[int]:
    """Leaders by removing the later of the nearest two, until all are farther than `radius`."""
    left = [int(i) for i in np.argsort(x)]
    while len(left) > 1:
        gaps = np.diff(x[left], append=x[left[0]] + 1)
        k = int(gaps.argmin())
        if gaps[k] > radius:
            break
        left.remove(max(left[k], left[(k + 1) % len(left)]))
    return set(left)


@pytest.mark.parametrize("radius", [0.003, 0.02, 0.1, 0.3])
def test_leaders_are_those_left_by_merging_gaps(radius):
    rng = np.random.default_rng(0)
    x = rng.random(150)
    assert set(np.flatnonzero(captures(x, 1.0).leading(radius))) == by_merging(x, radius)


def test_a_cold_decoder_follows_the_rule():
    angles = np.array([0.0, 1.5, 2.2, 5.0, 0.4])
    rule, found = captures(angles), merges(angles, 300.0, causal=True)
    taken = np.full(5, -1)
    taken[found.lost] = found.kept
    assert (taken == rule.by).all()
    clock = np.empty(5)
    clock[found.lost] = np.log(found.times) / 300.0
    np.testing.assert_allclose(clock[1:], 1 - np.cos(rule.radii[1:]), atol=0.03)


def test_parked_cars_are_apart_and_nobody_else_fits():
    rng = np.random.default_rng(1)
    x, r = rng.random(300), 0.03
    kept = park(x, r, 1.0)
    far = np.abs((x[:, None] - x[kept] + 0.5) % 1 - 0.5)
    assert (far[~kept].min(axis=1) <= r).all()
    assert (np.sort(far[kept], axis=1)[:, 1] > r).all()


def test_few_cars_all_park_and_many_reach_the_constant():
    assert parking_density(0.01) == pytest.approx(0.01 * (1 - 0.01), rel=1e-3)
    assert parking_density() == pytest.approx(0.7475979202534, abs=1e-12)
    late = parking_density() - parking_density(1e4)
    assert late == pytest.approx(np.exp(-2 * np.euler_gamma) / 1e4, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: captures([]), "at least one token"),
        (lambda: captures([0.0], -1.0), "length"),
        (lambda: park([0.0], 0.0), "radius"),
        (lambda: parking_density(-1.0), "tries"),
    ],
)
def test_bad_streets_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("tries", [1e-12, 1e-20, 1e-160, 1e-200, 2.3e-308])
def test_at_first_every_car_finds_a_place(tries):
    with np.errstate(all="raise", under="ignore"):
        assert parking_density(tries) == pytest.approx(tries, rel=1e-11)
