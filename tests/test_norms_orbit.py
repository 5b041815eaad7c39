"""attnflow.norms.orbit and .clocks: the common orbit, and four clocks along it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from attnflow import norms, sphere


def simplex(n: int, cosine: float) -> np.ndarray:
    """n unit vectors with one common cosine."""
    return np.linalg.cholesky((1 - cosine) * np.eye(n) + cosine)


@pytest.mark.parametrize("cosine", [0.0, 0.3, 0.95])
def test_a_layer_reads_what_the_tokens_say(cosine: float) -> None:
    n, beta = 6, 2.5
    x = simplex(n, cosine)
    scores = np.exp(beta * x @ x.T)
    A = scores / scores.sum(axis=1, keepdims=True)
    m = A @ x
    seen = norms.reading(1 - cosine, beta, n)
    np.testing.assert_allclose(seen.other, A[0, 1], rtol=1e-12)
    np.testing.assert_allclose(seen.difference, np.linalg.eigvalsh(A)[0], rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(seen.along, m[0] @ x[0], rtol=1e-12)
    np.testing.assert_allclose(seen.size, np.linalg.norm(m[0]), rtol=1e-12)


@pytest.mark.parametrize(
    ("beta", "n", "delta"),
    [(0.0, 5, 0.2), (1e-9, 5, 0.2), (4.0, 32, 1e-3), (12.0, 10**6, 0.5), (60.0, 2, 0.9)],
)
def test_the_closed_form_is_the_quadrature(beta: float, n: int, delta: float) -> None:
    whole = float(norms.sphere_time(beta, n, delta))
    np.testing.assert_allclose(whole, sphere.hitting_time(beta, n, delta), rtol=1e-10)


def test_times_from_a_later_start_add_up() -> None:
    whole = norms.sphere_time(3.0, 9, 0.1)
    parts = norms.sphere_time(3.0, 9, 0.6) + norms.sphere_time(3.0, 9, 0.1, start=0.4)
    np.testing.assert_allclose(whole, parts, rtol=1e-13)


@pytest.mark.parametrize("norm", norms.NORMS)
@pytest.mark.parametrize("cosine", [0.0, 0.25])
def test_simulated_tokens_meet_when_the_clock_says(norm: str, cosine: float) -> None:
    n, beta, delta = 5, 2.0, 0.2
    radius = 1.0 if norm in ("post", "nGPT") else 1.7
    T = norms.meeting_time(norm, beta, n, delta, start=cosine, radius=radius)
    x = norms.flow(norm, radius * simplex(n, cosine), beta, [0.0, T], rtol=1e-12).states[-1]
    r = np.linalg.norm(x, axis=1)
    theta = x / r[:, None]
    np.testing.assert_allclose(theta[0] @ theta[1], 1 - delta, rtol=1e-9)
    if norm in ("pre", "peri"):
        grown = norms.size(beta, n, delta, start=cosine)
        np.testing.assert_allclose(r, radius * grown, rtol=1e-9)


@pytest.mark.parametrize("norm", norms.NORMS)
def test_curve_and_meeting_time_are_inverse(norm: str) -> None:
    for beta, n, delta in [(0.0, 2, 0.5), (5.0, 8, 0.01), (6.0, 400, 1e-6)]:
        T = norms.meeting_time(norm, beta, n, delta)
        np.testing.assert_allclose(norms.curve(norm, beta, n, [T]).gaps, delta, rtol=1e-8)


@pytest.mark.parametrize("norm", norms.NORMS)
def test_the_integral_agrees_with_an_adaptive_one(norm: str) -> None:
    n, beta, delta = 50, 5.0, 0.05

    def pace(u: float) -> float:
        r = norms.reading(u, beta, n)
        clock = 1.0 if norm in ("post", "nGPT") else float(norms.size(beta, n, u))
        clock *= float(r.size) if norm in ("peri", "nGPT") else 1.0
        return clock / (2 * float(r.along - r.difference) * u)

    whole, _ = quad(pace, delta, 1.0, epsrel=1e-10, limit=400)
    np.testing.assert_allclose(norms.meeting_time(norm, beta, n, delta), whole, rtol=1e-8)


@pytest.mark.parametrize("norm", norms.NORMS)
def test_the_diagram_is_the_curve(norm: str) -> None:
    times = np.geomspace(0.05, 50, 9)
    seen = norms.diagram(norm, 64, [0.0, 3.0, 6.0], times)
    for row, beta in zip(seen, (0.0, 3.0, 6.0), strict=True):
        np.testing.assert_allclose(row, norms.curve(norm, beta, 64, times).cosines, atol=2e-4)


def test_the_last_phase_has_its_constant() -> None:
    t = 9.0
    for norm in ("post", "nGPT"):
        gap = norms.curve(norm, 2.0, 6, [t]).gaps[0]
        np.testing.assert_allclose(gap * np.exp(2 * t), norms.last_phase(norm, 2.0, 6), rtol=1e-6)
    for norm in ("pre", "peri"):
        gap = norms.curve(norm, 2.0, 6, [1e7], radius=3.0).gaps[0]
        constant = norms.last_phase(norm, 2.0, 6, radius=3.0)
        np.testing.assert_allclose(gap * 1e14, constant, rtol=1e-5)


def test_a_time_that_is_no_number_is_refused_and_its_logarithm_given() -> None:
    with pytest.raises(ValueError, match="log_meeting_time gives its logarithm"):
        norms.meeting_time("pre", 20.0, 100, 0.1)
    assert norms.log_meeting_time("pre", 20.0, 100, 0.1) > 1e6


def test_bad_calls_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="gap must lie in"):
        norms.reading(-0.1, 1.0, 4)
    with pytest.raises(ValueError, match="delta must lie in"):
        norms.sphere_time(1.0, 4, 0.9, start=0.5)
    with pytest.raises(ValueError, match="delta must be below"):
        norms.meeting_time("pre", 1.0, 4, 0.9, start=0.5)
    with pytest.raises(ValueError, match="start must lie in"):
        norms.meeting_time("pre", 1.0, 4, 0.1, start=-0.1)
    with pytest.raises(ValueError, match="times must increase"):
        norms.curve("pre", 1.0, 4, [2.0, 1.0])
    with pytest.raises(ValueError, match="times must be positive"):
        norms.diagram("pre", 4, [1.0], [0.0])


@pytest.mark.parametrize("norm", norms.NORMS)
def test_the_last_phase_is_a_number_where_its_exponential_is_none(norm: str) -> None:
    """Between 2 T = 709 and 744 exp(2 T) overflows, and exp(2 T) 1e-15 does not."""
    time = norms.sphere_time if norm != "nGPT" else norms.meeting_time
    for beta in np.linspace(7.0, 12.0, 401):
        late = (norm, beta, 32, 1e-15)[norm != "nGPT" :]
        double = 2 * float(time(*late))
        if 712 < double < 740:
            break
    want = np.exp(double + np.log(1e-15)) / (1 if norm in ("post", "nGPT") else 32)
    np.testing.assert_allclose(norms.last_phase(norm, beta, 32), want, rtol=1e-11)


@pytest.mark.parametrize("norm", norms.NORMS)
@pytest.mark.parametrize("beta", [11.0, 700.0])
def test_a_last_phase_that_is_no_number_is_refused(norm: str, beta: float) -> None:
    with pytest.raises(ValueError, match=r"must be a finite number, got about exp\("):
        norms.last_phase(norm, beta, 4)


@pytest.mark.parametrize("norm", norms.NORMS)
def test_hardly_any_beta_is_none(norm: str) -> None:
    betas = [0.0, 2.3e-308, 1e-200, 1e-30, 1e-17]
    times = [norms.meeting_time(norm, beta, 32, 1e-9) for beta in betas]
    np.testing.assert_allclose(times, times[0], rtol=1e-12)
    shades = norms.diagram(norm, 32, betas, [0.1, 1.0, 10.0])
    np.testing.assert_allclose(shades, shades[[0]] + 0 * shades, rtol=1e-9)


@pytest.mark.parametrize("norm", norms.NORMS)
def test_gaps_down_to_the_smallest_have_times_and_none_below(norm: str) -> None:
    times = [norms.log_meeting_time(norm, 1.0, 10**12, gap) for gap in (1e-279, 1e-280)]
    assert times[0] < times[1]
    refusal = r"^delta must (be at least |lie in \[)1e-280"
    for gap in (1e-290, 1e-307):
        with pytest.raises(ValueError, match=refusal):
            norms.log_meeting_time(norm, 1.0, 4, gap)
        with pytest.raises(ValueError, match=refusal):
            norms.sphere_time(1.0, 4, gap)
        with pytest.raises(ValueError, match=refusal):
            norms.limit_below(norm, 4, gap)
        with pytest.raises(ValueError, match=refusal):
            norms.layers_to_meet(norm, 1.0, 4, gap)


@pytest.mark.parametrize("start", [1.0, 1.5, -0.1])
def test_a_start_that_is_no_cosine_below_one_is_refused_as_that(start: float) -> None:
    for call in (norms.sphere_time, norms.size):
        with pytest.raises(ValueError, match=rf"start must lie in \[0, 1\), got {start}"):
            call(1.0, 4, 0.1, start=start)
