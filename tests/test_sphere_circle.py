"""Clusters on the circle, followed through all their merges."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from attnflow.sphere import flow, merge_time, merges
from attnflow.sphere.circle import Merges


def test_tokens_with_masses_move_like_tokens_that_coincide():
    angles, beta = np.array([0.0, 0.7, 2.0]), 9.0
    tokens = np.repeat(angles, [2, 1, 3])
    x = flow(np.stack([np.cos(tokens), np.sin(tokens)], axis=1), beta, [0.0, 4.0]).states[-1]
    end = np.arctan2(x[:, 1], x[:, 0])[[0, 2, 3]]
    found = merges(angles, beta, [2.0, 1.0, 3.0], horizon=4.0)
    assert not found.converged
    np.testing.assert_allclose(found.last, end, atol=1e-7)


@pytest.mark.parametrize("unit", [1e-250, 1.0, 3.0, 1e250, 8e307])
def test_only_ratios_of_masses_matter_whatever_their_unit(unit):
    angles, masses = [0.0, 1.0, 2.5], np.array([2.0, 1.0, 1.5])
    with np.errstate(all="raise", under="ignore"):
        found = merges(angles, 9.0, unit * masses)
    want = merges(angles, 9.0, masses)
    assert found.times == pytest.approx(want.times, rel=1e-6)
    assert found.kept.tolist() == want.kept.tolist()


def test_a_decoder_on_the_circle_is_the_causal_flow():
    angles, beta = np.array([0.3, 1.4, 0.9, 2.2]), 9.0
    x = flow(
        np.stack([np.cos(angles), np.sin(angles)], axis=1), beta, [0.0, 6.0], causal=True
    ).states[-1]
    found = merges(angles, beta, causal=True, horizon=6.0)
    np.testing.assert_allclose(found.last, np.arctan2(x[:, 1], x[:, 0]), atol=1e-7)


def test_equal_clusters_take_the_closed_form_at_times_that_overflow_integers():
    found = merges([0.0, 1.2], 500.0, near=1e-3)
    assert np.log(found.times[0]) == pytest.approx(np.log(merge_time(500.0, 1.2, 1e-3)), abs=1e-4)


def test_unnormalised_clusters_solve_their_equation():
    m = np.array([3.0, 1.0])

    def field(_, y):
        w = np.exp(-20.0 * (1 - np.cos(y[1] - y[0]))) * np.sin(y[1] - y[0])
        return [m[1] * w / 4, -m[0] * w / 4]

    end = solve_ivp(field, (0, 50.0), [0.0, 0.9], method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    found = merges([0.0, 0.9], 20.0, m, normalised=False, horizon=50.0)
    np.testing.assert_allclose(found.last, end, atol=1e-7)


def test_the_first_token_of_a_decoder_never_moves():
    found = merges([1.0, 2.0, 0.2, 2.9], 40.0, causal=True)
    assert found.converged
    assert found.last[0] == 1.0
    assert (found.kept < found.lost).all()


def test_energy_and_count_agree_with_the_merges():
    found = merges([0.0, 0.6, 2.4], 60.0)
    between = np.sqrt(found.times[0] * found.times[1])
    assert found.clusters([0.0, between, 2 * found.times[1]]).tolist() == [3, 2, 1]
    np.testing.assert_allclose(found.energy([between]), 5 / 9, atol=1e-6)
    assert (np.diff(found.trail[:, 1]) > -1e-12).all()


@pytest.mark.parametrize(
    ("angles", "more", "words"),
    [
        ([0.0], {}, "at least two tokens"),
        ([0.0, 2 * np.pi], {}, "different points"),
        ([0.0, 1e9], {}, "at most 1e6"),
        ([0.0, 1.0], {"masses": [1.0, 0.0]}, "positive numbers"),
        ([0.0, 1.0], {"masses": [1.0]}, "2 positive numbers"),
        ([0.0, 1.0], {"masses": [1.0, 1.0], "causal": True}, "causal mask"),
        ([0.0, 1.0], {"beta": -1.0}, "beta"),
        ([0.0, 1.0], {"horizon": 0.0}, "horizon"),
    ],
)
def test_bad_clusters_are_refused(angles, more, words):
    with pytest.raises(ValueError, match=words):
        merges(angles, **{"beta": 10.0, **more})


def test_merges_state_the_tolerance_they_were_followed_with_and_none_unless_told() -> None:
    assert merges([0.0, 1.0], 5.0, tol=1e-7).tol == 1e-7
    none, whole = np.empty(0), np.empty(0, int)
    assert Merges(none, whole, whole, none, none, whole, np.empty((0, 2)), 0).tol == 0.0
