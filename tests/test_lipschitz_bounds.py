import math

import numpy as np
import pytest
from balls import I1, I2, I3, SEEDS, SKEW, dense, forward, in_ball, norm, problem
from hypothesis import given, settings
from hypothesis import strategies as st
from jacobians import layer
from tolerances import EXPONENTIAL, ROUNDING, SEVEN_DIGITS, SIX_DIGITS

from attnflow import lipschitz
from attnflow.attention import MultiHead, SoftmaxAttention
from attnflow.lipschitz import (
    Head,
    adversarial,
    gamma,
    large_radius,
    layer_upper_bound,
    local_constant,
    lower_bound,
    mean_field_lower,
    mean_field_upper,
    multi_head_upper_bound,
    sharper_lower_bound,
    spread,
    spread_bound,
    two_leaders,
    two_leaders_bound,
    upper_bound,
)

# numbers that are known


@pytest.mark.parametrize(
    ("A", "measured", "below"), [(-2 * I2, 3.585446, 2.345089), (8 * I2, 3.089921, 1.358644)]
)
def test_reference_values(A, measured, below):
    x = adversarial(A, 1.0, 8)
    value = local_constant(SoftmaxAttention(A, I2, I2), x, 1e-9).value
    assert abs(value - norm(A, I2, x)) <= 1e-8
    assert abs(value / measured - 1) <= SEVEN_DIGITS
    assert abs(lower_bound(A, 1.0, 8) / below - 1) <= SEVEN_DIGITS


def test_reference_value_of_the_upper_bound():
    assert abs(upper_bound(-2 * I2, I2, 1.0, 8) / 20.4939 - 1) <= SIX_DIGITS
    assert upper_bound(-2 * I2, 3 * I2, 1.0, 8) == pytest.approx(3 * math.sqrt(3 * (4 * 33 + 8)))
    # |A| and |V| are largest singular values: these matrices have no other eigenvalue than 0
    nilpotent = np.array([[0.0, 2.0], [0.0, 0.0]])
    assert upper_bound(nilpotent, nilpotent, 2.0, 1) == pytest.approx(2 * math.sqrt(3 * (4 * 16 * 5 + 1)))  # fmt: skip


@pytest.mark.parametrize("n", [4, 64])
def test_two_leaders_come_near_the_upper_bound(n):
    value = local_constant(SoftmaxAttention(-I2, I2, I2), two_leaders(-I2, I2, 6.0, n), 1e-8).value
    assert abs(value / {4: 50.926420, 64: 203.72523}[n] - 1) <= SEVEN_DIGITS
    assert abs(two_leaders_bound(-I2, I2, 6.0, n) / (36 * math.sqrt((n - 2) / 2)) - 1) <= 1e-3
    assert value < upper_bound(-I2, I2, 6.0, n) < 5.1 * value


def mean_field_norm(g):
    """One token at 1, m at -1, scores -g x y: on changes that are equal on the m, J is 2 by 2."""
    m = round(math.exp(2 * g))
    x, counts = np.array([[1.0], [-1.0]]), np.array([1.0, m])
    steps = x + 1e-30j * np.eye(2)[:, :, None]
    J = forward(-g * I1, I1, steps, counts=counts)[..., 0].imag.T / 1e-30
    size = np.sqrt(counts)
    return np.linalg.norm(J * size[:, None] / size, 2)


def test_the_mean_field_limit_of_the_norm():
    """(1 + g) e^g / 2 at n - 1 = e^(2g), up to what the first token itself answers."""
    assert abs(mean_field_norm(4.0) - 136.607) <= 5e-4
    for g in (3.0, 4.0, 6.0):
        assert abs(mean_field_norm(g) / ((1 + g) * math.exp(g) / 2) - 1) <= 0.1 / math.exp(g - 1)
    n = round(math.exp(6.0)) + 1
    layer = SoftmaxAttention(-I1, I1, I1)
    value = local_constant(layer, adversarial(-I1, math.sqrt(3), n), 1e-8).value
    assert abs(value / mean_field_norm(3.0) - 1) <= 1e-7
    assert mean_field_lower(-I1, math.sqrt(3)) <= value <= mean_field_upper(-I1, I1, math.sqrt(3))


def test_mean_field_bounds_are_their_formulas():
    assert mean_field_lower(-I1, 2.0) == pytest.approx(2 * math.exp(4))
    assert mean_field_lower(8 * I2, 2.0) == pytest.approx(2 * math.exp(4))
    assert mean_field_upper(-2 * I2, 3 * I2, 1.0) == pytest.approx(3 * 7 * math.exp(4))
    assert mean_field_upper(I2, I2, 100.0) == math.inf
    assert mean_field_lower(-I2, 100.0) == math.inf


# gamma


@pytest.mark.parametrize(
    ("A", "want"),
    [
        (-2 * I2, 2.0),
        (8 * I2, 1.0),
        (np.diag([-2.0, 8.0]), 2.0),
        (np.diag([-2.0, 17.0]), 17 / 8),
        (np.diag([-1.0, -3.0]), 3.0),
        (np.diag([1.0, 3.0]), 3 / 8),
        ([[0.0, 1.0], [-1.0, 0.0]], 0.0),
        ([[0.0, 2.0], [0.0, 0.0]], 1.0),
        (SKEW, 3.0),
        (0 * I2, 0.0),
    ],
)
def test_gamma_looks_at_the_symmetric_part(A, want):
    assert abs(gamma(A) - want) <= ROUNDING


def test_adversarial_tokens_stand_on_a_line():
    x = adversarial(SKEW, 2.0, 5)
    u = x[0] / 2
    assert abs(np.linalg.norm(u) - 1) <= ROUNDING
    assert abs(u @ SKEW @ u + 3) <= ROUNDING * 10
    assert np.abs(x[1:] + x[0]).max() == 0
    x = adversarial(-SKEW @ SKEW.T * -1, 2.0, 5)
    assert np.abs(x[1:] - x[0] / 2).max() == 0
    largest = np.linalg.eigvalsh(SKEW @ SKEW.T)[-1]
    assert abs(x[0] @ SKEW @ SKEW.T @ x[0] / (4 * largest) - 1) <= ROUNDING * 10


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_lower_bounds_are_answers_of_the_adversarial_tokens(seed):
    A, _, R, n = problem(seed)
    d = len(A)
    x = adversarial(A, R, n)
    low, sharper = lower_bound(A, R, n), sharper_lower_bound(A, R, n)
    P = SoftmaxAttention(A, np.eye(d), np.eye(d)).matrix(x)
    assert abs(low - np.linalg.norm(P[1:, 0])) <= EXPONENTIAL * low
    J = dense(A, np.eye(d), x)
    answer = J[1:, :, 0] @ (x[0] / R)
    assert abs(sharper - np.linalg.norm(answer)) <= EXPONENTIAL * sharper
    measured = norm(A, np.eye(d), x)
    assert low <= sharper * (1 + ROUNDING) <= measured * (1 + EXPONENTIAL)
    assert low <= norm(A, np.eye(d), x, causal=True) * (1 + EXPONENTIAL)


def test_the_naive_gamma_promises_more_than_is_there():
    """With the norm of A for gamma the bound fails where A is positive definite."""
    for n, R in ((50, 2.0), (200, 2.0)):
        measured = local_constant(SoftmaxAttention(I2, I2, I2), adversarial(I2, R, n)).value
        assert lower_bound(I2, R, n) <= measured
        assert lower_bound(-I2, R, n) > 5 * measured


# the upper bound


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.booleans())
def test_no_tokens_in_the_ball_exceed_the_upper_bounds(seed, causal):
    A, V, R, n = problem(seed)
    tokens = [in_ball(n, len(A), R, seed), adversarial(A, R, n), spread(A, V, R, n)]
    if len(A) > 2:
        tokens.append(two_leaders(A, V, R, n))
    for x in tokens:
        assert np.linalg.norm(x, axis=1).max() <= R * (1 + ROUNDING)
        measured = norm(A, V, x, causal)
        assert measured <= upper_bound(A, V, R, n)
        if not causal:
            assert measured <= mean_field_upper(A, V, R)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.booleans())
def test_several_heads_stay_below_the_sum(seed, causal):
    rng = np.random.default_rng(seed)
    d, n, R = 3, 6, float(rng.choice([0.5, 2.0]))
    Q, K, V = rng.normal(size=(3, 3, 2, d))
    W = rng.normal(size=(3, d, 2))
    heads = [SoftmaxAttention(*M, causal) for M in zip(Q, K, V, strict=True)]
    A = [k.T @ q for q, k in zip(Q, K, strict=True)]
    bound = multi_head_upper_bound(A, V, W, R, n)
    assert local_constant(MultiHead(heads, W), in_ball(n, d, R, seed)).value <= bound
    sizes = np.linalg.norm(W, 2, axis=(1, 2))
    alone = [upper_bound(a, v, R, n) for a, v in zip(A, V, strict=True)]
    assert bound == pytest.approx(sizes @ alone)


# heads of a trained layer


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from([0.3, 1.0, 3.0]))
def test_no_layer_with_biases_and_rotations_exceeds_its_bound(seed, R):
    heads, x = layer(seed)
    x = in_ball(*x.shape, R, seed)
    assert local_constant(heads, x).value <= layer_upper_bound(heads, R, len(x))


def test_the_bound_of_a_trained_layer_is_the_sum_over_its_heads():
    """Without biases that of every head; with a bias in a ball wider by sqrt(2), a column more."""
    rng = np.random.default_rng(1)
    Q, K, V = rng.normal(size=(3, 2, 4))
    W = rng.normal(size=(5, 2))
    bq, bk = rng.normal(size=(2, 2))
    plain, biased = Head(Q, K, V, W), Head(Q, K, V, bq=bq, bk=bk)
    one = multi_head_upper_bound([K.T @ Q], [V], [W], 1.5, 7)
    assert layer_upper_bound([plain], 1.5, 7) == pytest.approx(one)
    A = np.column_stack([K, bk / 1.5]).T @ np.column_stack([Q, bq / 1.5])
    two = upper_bound(A, np.column_stack([V, np.zeros(2)]), math.sqrt(2) * 1.5, 7)
    assert layer_upper_bound([biased], 1.5, 7) == pytest.approx(two)
    assert layer_upper_bound([plain, biased], 1.5, 7) == pytest.approx(one + two)
    turned = plain._replace(angles=np.zeros((7, 1)))
    size = np.linalg.norm(K, 2) * np.linalg.norm(Q, 2) * np.eye(4)
    assert layer_upper_bound([turned], 1.5, 7) == pytest.approx(multi_head_upper_bound([size], [V], [W], 1.5, 7))  # fmt: skip
    with pytest.raises(ValueError, match="at least one head, got none"):
        layer_upper_bound([], 1.0, 7)


# what is refused


def test_whole_floats_count():
    for n in (5, 5.0, np.int64(5)):
        assert adversarial(-I2, 1.0, n).shape == (5, 2)
        assert spread(-I2, I2, 1.0, n).shape == (5, 2)
        assert two_leaders(-I2, I2, 1.0, n).shape == (5, 2)
        assert upper_bound(-I2, I2, 1.0, n) == upper_bound(-I2, I2, 1.0, 5)


WITH_A = [gamma, *(lambda A, f=f: f(A, 1.0, 4) for f in (adversarial, lower_bound, sharper_lower_bound))]  # fmt: skip
WITH_A.append(lambda A: mean_field_lower(A, 1.0))
WITH_V = [lambda A, V, f=f: f(A, V, 1.0, 4) for f in (upper_bound, spread, spread_bound, two_leaders, two_leaders_bound)]  # fmt: skip
WITH_V.append(lambda A, V: mean_field_upper(A, V, 1.0))
WITH_V.append(lambda A, V: large_radius(A, V, np.ones((3, 2))))


def test_matrices_have_shapes_that_fit():
    for f in WITH_A:
        with pytest.raises(ValueError, match=r"A must be square, got shape \(2, 3\)"):
            f(np.ones((2, 3)))
        with pytest.raises(ValueError, match="A must be finite, got nan"):
            f([[np.nan]])
        with pytest.raises(ValueError, match=r"A must have 2 axes, got shape \(\)"):
            f(2.0)
    for g in WITH_V:
        with pytest.raises(ValueError, match=r"A must be square .* got \(2, 3\) and \(2, 2\)"):
            g(np.ones((2, 3)), I2)
        with pytest.raises(ValueError, match=r"as many columns as V, got \(2, 2\) and \(3, 3\)"):
            g(I2, I3)
        with pytest.raises(ValueError, match="V must be finite, got inf"):
            g(I2, [[np.inf, 0.0]])
    with pytest.raises(ValueError, match=r"A must have shape \(3, 3\), got \(2, 2\)"):
        large_radius(I2, I2, np.ones((4, 3)))
    with pytest.raises(ValueError, match="x must hold at least one token"):
        large_radius(I2, I2, np.empty((0, 2)))


@pytest.mark.parametrize("R", [0.0, -1.0, np.nan, np.inf, "far"])
def test_the_radius_is_positive(R):
    of_A = (adversarial, lower_bound, sharper_lower_bound)
    of_V = (upper_bound, spread, spread_bound, two_leaders, two_leaders_bound)
    calls = [(f, (-I2, R, 4)) for f in of_A] + [(f, (-I2, I2, R, 4)) for f in of_V]
    calls += [(mean_field_lower, (-I2, R)), (mean_field_upper, (-I2, I2, R))]
    calls += [(multi_head_upper_bound, ([I2], [I2], [I2], R, 4))]
    for f, arguments in calls:
        with pytest.raises(ValueError, match=r"R must be a(.*)number > 0, got"):
            f(*arguments)


def test_there_are_enough_tokens():
    for least, n, names in [
        (2, 1, ("adversarial", "lower_bound", "sharper_lower_bound")),
        (3, 2, ("spread", "spread_bound", "two_leaders", "two_leaders_bound")),
        (1, 0, ("upper_bound",)),
    ]:
        for name in names:
            matrices = (-I2,) if least == 2 else (-I2, I2)
            for wrong in (n, -4, least + 0.5, "many"):
                with pytest.raises(ValueError, match=f"n must be a whole number >= {least}, got"):
                    getattr(lipschitz, name)(*matrices, 1.0, wrong)


def test_every_head_has_its_matrices():
    with pytest.raises(ValueError, match="one matrix per head, got 2, 1 and 2"):
        multi_head_upper_bound([I2, I2], [I2], [I2, I2], 1.0, 4)
    with pytest.raises(ValueError, match="one matrix per head, got 1, 1 and 2"):
        multi_head_upper_bound([I2], [I2], [I2, I2], 1.0, 4)
    with pytest.raises(ValueError, match="one matrix per head, got 0, 0 and 0"):
        multi_head_upper_bound([], [], [], 1.0, 4)
    with pytest.raises(ValueError, match="W must be finite, got nan"):
        multi_head_upper_bound([I2], [I2], [[[np.nan]]], 1.0, 4)


@pytest.mark.parametrize("causal", [False, True])
def test_the_tight_bound_lies_between_every_configuration_and_the_published_one(causal):
    rng = np.random.default_rng(5)
    for _ in range(30):
        A, V = rng.normal(size=(2, 3, 3))
        R, n = rng.uniform(0.2, 4), int(rng.integers(3, 40))
        bound = lipschitz.tight_upper_bound(A, V, R, n)
        assert bound <= lipschitz.upper_bound(A, V, R, n)
        for x in (
            lipschitz.two_leaders(A, V, R, n),
            lipschitz.adversarial(A, R, n),
            lipschitz.spread(A, V, R, n),
        ):
            got = lipschitz.local_constant(SoftmaxAttention(A, np.eye(3), V, causal), x)
            assert got.value <= bound


def test_two_leaders_reach_the_tight_bound():
    I2 = np.eye(2)
    shares = [
        lipschitz.two_leaders_bound(-I2, I2, R, n) / lipschitz.tight_upper_bound(-I2, I2, R, n)
        for R, n in ((4, 16), (10, 256), (30, 4096), (100, 65536))
    ]
    assert (np.diff(shares) > 0).all()
    assert 0.99 < shares[-1] < 1
