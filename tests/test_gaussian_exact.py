import math

import numpy as np
import pytest
from gaussians import (
    ALL_KINDS,
    GLOBAL_KINDS,
    KINDS,
    ONE,
    exact_variance,
    layer,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from tolerances import (
    CONDITIONED,
    FLOW,
    ROUNDING,
    SEVEN_DIGITS,
)

from attnflow.gaussian import (
    covariance_flow,
    gaussian_flow,
)


def test_the_l2_variance_is_the_known_number():
    assert abs(exact_variance("L2", 1.0, 1.0, A=1.0, V=1.0) / 4.9573005 - 1) <= SEVEN_DIGITS / 10
    cov, mean = covariance_flow("L2", 1.0, 1.0, 1.0, 1.0, 1.0)
    assert cov.shape == (1, 1)
    assert mean.tolist() == [0.0]
    assert abs(cov[0, 0] / 4.9573005 - 1) <= SEVEN_DIGITS / 10


def plain_variance(kind, t, var, A, V, K, eps):
    """s' = 2 B s, integrated in log s."""

    def right(_, u):
        s = np.exp(u)
        if kind == "softmax":
            return 2 * V * A * s
        if kind == "L2":
            return 4 * V * A * s / (1 + 2 * K**2 * s)
        return 4 * V * A * s / eps / (1 + np.sqrt(1 + (2 * A * s / eps) ** 2))

    found = solve_ivp(right, (0, t), [math.log(var)], method="DOP853", rtol=1e-13, atol=1e-14)
    return math.exp(found.y[0, -1])


@ALL_KINDS
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    var=st.floats(0.05, 10),
    A=st.floats(-3, 3),
    V=st.floats(-3, 3),
    K=st.sampled_from([0.01, 0.3, -1.0, 2.0]),
    eps=st.floats(0.2, 4),
    t=st.floats(0.01, 2),
)
def test_the_exact_variance_solves_its_equation(kind, var, A, V, K, eps, t):
    speed = {"softmax": 2.0, "L2": 4.0 if K == 0.01 else 0.0, "sinkhorn": 0.0}[kind] * V * A * var
    if speed * t > 0.9:  # short of the blow-up, where digits are lost
        t = 0.9 / speed
    got = exact_variance(kind, t, var, A, V, K=K, eps=eps)
    assert abs(math.log(got / plain_variance(kind, t, var, A, V, K, eps))) <= FLOW


@ALL_KINDS
@pytest.mark.parametrize("A", [-2.0, -0.5, 0.0, 0.5, 2.0])
@pytest.mark.parametrize("V", [-1.5, 0.0, 0.7])
@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_the_exact_variance_is_that_of_the_flow(kind, A, V, eps):
    times, key = [0.0, 0.1, 0.2], 1.3
    flow = gaussian_flow(layer(kind, A / key * ONE, key * ONE, V * ONE, eps), 0.8, times)
    want = [exact_variance(kind, t, 0.8, A, V, K=key, eps=eps) for t in times]
    assert np.abs(flow.covs.ravel() / want - 1).max() <= FLOW
    if A * V == 0:
        assert np.abs(flow.covs - 0.8).max() <= ROUNDING


@ALL_KINDS
def test_without_keys_nothing_moves(kind):
    """Q x may be anything: with K = 0 every token averages all others, and A = 0."""
    flow = gaussian_flow(layer(kind, 2 * ONE, 0 * ONE, ONE), 0.8, [0.0, 1.0], [1.0])
    assert abs(flow.covs[-1, 0, 0] - 0.8) <= ROUNDING
    assert abs(flow.means[-1, 0] - math.e) <= FLOW
    assert abs(exact_variance(kind, 1.0, 0.8, 0.0, 1.0, K=0.0) - 0.8) <= ROUNDING


def test_the_l2_variance_tends_to_that_of_weak_keys():
    """The term 2 K^2 log s vanishes with K: softmax attention at twice the speed."""
    want = exact_variance("softmax", 0.4, 1.0, 1.0, 1.0)
    assert abs(want - 1 / (1 - 4 * 0.2)) <= CONDITIONED
    errors = [abs(exact_variance("L2", 0.2, 1.0, 1.0, 1.0, K=k) - want) for k in (1e-2, 1e-3)]
    assert errors[0] <= 0.02
    assert abs(errors[0] / errors[1] - 100) <= 1


def test_keys_of_zero_have_no_scores():
    with pytest.raises(ValueError, match=r"K must not be 0 where A = KQ is not, got A = 1.0"):
        exact_variance("L2", 0.2, 1.0, 1.0, 1.0, K=0.0)


def test_the_softmax_variance_is_infinite_from_the_blow_up_on():
    assert exact_variance("softmax", 0.5, 1.0, 1.0, 1.0) == math.inf
    assert exact_variance("softmax", 7.0, 1.0, 1.0, 1.0) == math.inf
    assert exact_variance("softmax", 7.0, 1.0, -1.0, 1.0) == pytest.approx(1 / 15)


@GLOBAL_KINDS
@pytest.mark.parametrize("V", [-1.0, 1.0])
def test_the_exact_variance_keeps_its_digits_for_long_times_and_small_variances(kind, V):
    """The conserved quantity of the docstring, evaluated at the answer."""
    for var in (1e-10, 1e-6, 1.0, 1e6):
        for t in (1e-3, 1.0, 100.0):
            s = exact_variance(kind, t, var, 1.0, V)
            if kind == "L2":
                level = [-1 / v + 2 * math.log(v) for v in (var, s)]
                rate = 4 * V
            else:
                theta = [math.asinh(2 * v) for v in (var, s)]
                level = [x - 1 / math.tanh(x / 2) for x in theta]
                rate = 2 * V
            size = max(abs(level[0]), abs(level[1]))  # 1/s or log s: 1e-11 of either is lost
            assert abs(level[1] - level[0] - rate * t) <= CONDITIONED * size


@GLOBAL_KINDS
def test_a_variance_beyond_doubles_is_infinite_and_no_warning(kind):
    assert exact_variance(kind, 1e4, 1.0, 1.0, 1.0) == math.inf


@pytest.mark.parametrize("name", ["t", "A", "V", "K"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, "large", None])
def test_the_exact_variance_refuses_what_is_not_a_number(name, bad):
    arguments = {"t": 1.0, "var0": 1.0, "A": 1.0, "V": 1.0, "K": 1.0, name: bad}
    for kind in KINDS if name != "K" else ["L2"]:
        with pytest.raises(ValueError, match=f"{name} must be a finite number, got "):
            exact_variance(kind, **arguments)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "warm", None])
def test_the_exact_variance_refuses_numbers_that_are_not_positive(bad):
    with pytest.raises(ValueError, match=r"eps must be a (finite )?number > 0, got "):
        exact_variance("sinkhorn", 1.0, 1.0, 1.0, 1.0, eps=bad)
    for kind in KINDS:
        with pytest.raises(ValueError, match=r"var0 must be a (finite )?number > 0, got "):
            exact_variance(kind, 1.0, bad, 1.0, 1.0)
