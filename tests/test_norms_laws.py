"""attnflow.norms.laws and .depth: many tokens, and layers instead of time."""

from __future__ import annotations

import numpy as np
import pytest

from attnflow import norms

BIG = 10**12


@pytest.mark.parametrize("norm", norms.NORMS)
@pytest.mark.parametrize("c", [0.0, 0.4])
def test_below_the_line_times_have_their_limits(norm: str, c: float) -> None:
    found = norms.meeting_time(norm, c * np.log(BIG), BIG, 0.2)
    np.testing.assert_allclose(found, norms.limit_below(norm, BIG, 0.2), atol=1e-4)


@pytest.mark.parametrize("norm", ["peri", "nGPT"])
def test_below_the_line_the_number_of_tokens_does_not_matter(norm: str) -> None:
    assert norms.limit_below(norm, 10, 0.2) == norms.limit_below(norm, BIG, 0.2)


@pytest.mark.parametrize("c", [0.7, 1.0, 1.4])
def test_the_law_of_the_sphere_has_an_error_of_second_order(c: float) -> None:
    offs = []
    for n in (10**6, 10**12):
        beta = c * np.log(n)
        exact, law = float(norms.sphere_time(beta, n, 0.3)), norms.sphere_law(beta, n, 0.3)
        wait = law - np.log(n * 0.7 / 0.3) / 2
        offs.append(abs(exact - law) / wait * beta**2 * np.log(n))
    assert max(offs) < 3.0  # 1/beta^2 over log n


def test_the_line_is_where_a_token_gives_itself_half() -> None:
    for n, start in [(10, 0.0), (1000, 0.4)]:
        beta = norms.critical_beta(n, start=start)
        seen = norms.reading(1 - start, beta, n)
        np.testing.assert_allclose(seen.difference + seen.other, 0.5, rtol=1e-12)


@pytest.mark.parametrize("norm", norms.NORMS)
@pytest.mark.parametrize("step", [1.0, 0.3])
def test_the_map_is_that_of_the_tokens(norm: str, step: float) -> None:
    n, beta = 5, 1.5
    radius = 1.0 if norm in ("post", "nGPT") else 2.5
    x = norms.layers(norm, radius * np.eye(n), beta, 6, step=step).states
    r = np.linalg.norm(x, axis=2)
    theta = x / r[..., None]
    seen = norms.equiangular_layers(norm, beta, n, 6, step=step, radius=radius)
    np.testing.assert_allclose(seen.cosines, (theta[:, 0] * theta[:, 1]).sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(seen.sizes * radius, r[:, 0], rtol=1e-13)


def test_layers_are_counted_between_the_two_that_enclose_the_level() -> None:
    for norm in norms.NORMS:
        count = norms.layers_to_meet(norm, 2.0, 10, 0.1, step=0.5)
        gaps = norms.equiangular_layers(norm, 2.0, 10, int(count) + 1, step=0.5).gaps
        assert gaps[-1] <= 0.1 < gaps[-2]
    assert norms.layers_to_meet("pre", 8.0, 10, 0.1, most=100) == np.inf


def test_one_layer_of_ngpt_at_infinite_temperature_ends_it() -> None:
    assert norms.layers_to_meet("nGPT", 0.0, 10, 0.1) <= 1


@pytest.mark.parametrize("norm", norms.NORMS)
def test_layers_per_time_for_other_steps_and_radii(norm: str) -> None:
    sphere = norm in ("post", "nGPT")
    step, radius, beta = 0.5, 1.0 if sphere else 2.0, 10.0 if sphere else 5.0
    depth = norms.layers_to_meet(norm, beta, 2, 0.9, step=step, radius=radius)
    time = norms.meeting_time(norm, beta, 2, 0.9, radius=radius)
    limit = norms.layers_to_time(norm, step=step, radius=radius)
    np.testing.assert_allclose(depth * step / time, limit, rtol=2e-3 if sphere else 2e-2)


def test_bad_calls_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="start must lie in"):
        norms.critical_beta(10, start=1.0)
    with pytest.raises(ValueError, match="shift must be at most 700"):
        norms.window_exponent("pre", 1e4)
    with pytest.raises(ValueError, match="beta must be a finite number > 0"):
        norms.sphere_law(0.0, 10, 0.1)
    with pytest.raises(ValueError, match="depth must be at most"):
        norms.equiangular_layers("pre", 1.0, 10, 10**9)


@pytest.mark.parametrize("delta", [0.5, 1e-8, 1e-15, 1e-100, 1e-280])
def test_the_limit_of_ngpt_has_its_digits_at_every_gap(delta: float) -> None:
    """artanh sqrt(1 - delta) is arcosh 1/sqrt(delta)."""
    want = np.arccosh(1 / np.sqrt(delta))
    np.testing.assert_allclose(norms.limit_below("nGPT", 4, delta), want, rtol=1e-14)


@pytest.mark.parametrize("norm", ["post", "pre", "peri"])
@pytest.mark.parametrize("step", [1e-200, 1e150, 1e308])
def test_steps_whose_squares_are_no_numbers_are_refused(norm: str, step: float) -> None:
    for call in (
        lambda: norms.layers_to_meet(norm, 1.0, 4, 0.1, step=step),
        lambda: norms.equiangular_layers(norm, 1.0, 4, 3, step=step),
        lambda: norms.layers_to_time(norm, step=step),
        lambda: norms.layers(norm, np.eye(2), 1.0, 3, step=step),
    ):
        with pytest.raises(ValueError, match=r"^step must lie in \[1e-100, 1e100\], got "):
            call()
    assert np.isfinite(norms.layers_to_meet(norm, 1.0, 4, 0.1, step=1e100))


def test_two_tokens_have_their_limits_and_one_has_none() -> None:
    """At delta = 1/2: log(2)/2 on the sphere, log(8)/2 + sqrt(2) - 1 - artanh(1/sqrt(2)) before it."""
    root = np.sqrt(0.5)
    assert abs(norms.limit_below("post", 2, 0.5) - np.log(2) / 2) <= 1e-14
    want = np.log(8) / 2 + 1 / root - 1 - np.log((1 + root) / (1 - root)) / 2
    assert abs(norms.limit_below("pre", 2, 0.5) - want) <= 1e-14
    with pytest.raises(ValueError, match="n must be a whole number >= 2, got 1"):
        norms.limit_below("post", 1, 0.5)
