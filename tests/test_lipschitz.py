import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import EXPONENTIAL, ROUNDING, SEVEN_DIGITS, SIX_DIGITS

from attnflow import lipschitz
from attnflow.attention import MultiHead, SoftmaxAttention
from attnflow.lipschitz import (
    adversarial,
    gamma,
    large_radius,
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

SEEDS = st.integers(0, 2**32 - 1)
MASKS = pytest.mark.parametrize("causal", [False, True])
I1, I2, I3 = (np.eye(d) for d in (1, 2, 3))
#: Symmetric part diag(2, 1, -3), and a part that is not symmetric.
SKEW = np.array([[2.0, 1.0, -0.5], [-1.0, 1.0, 0.7], [0.5, -0.7, -3.0]])
WIDE = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]])


def forward(A, V, x, causal=False, counts=None):
    """Rows of exp <A x_i, x_j> over their sums, for real or complex x; a token may count often."""
    scores = np.einsum("...ia,...ja->...ij", x @ A.T, x)
    seen = np.tri(x.shape[-2]) if causal else np.ones((x.shape[-2],) * 2)
    top = np.where(seen, scores.real, -np.inf).max(axis=-1, keepdims=True)
    mass = np.exp(np.where(seen, scores - top, 0)) * seen * (1 if counts is None else counts)
    return (mass / mass.sum(axis=-1, keepdims=True)) @ (x @ V.T)


def dense(A, V, x, causal=False):
    """The Jacobian by complex steps, shape (n, p, n, d)."""
    n, d = x.shape
    steps = x + 1e-30j * np.eye(n * d).reshape(-1, n, d)
    return np.moveaxis((forward(A, V, steps, causal).imag / 1e-30).reshape(n, d, n, -1), (0, 1), (2, 3))  # fmt: skip


def norm(A, V, x, causal=False):
    J = dense(A, V, x, causal)
    return np.linalg.norm(J.reshape(J.shape[0] * J.shape[1], -1), 2)


def problem(seed, least=1):
    """Matrices, a radius, and a number of tokens."""
    rng = np.random.default_rng(seed)
    d, p = int(rng.integers(least, 5)), int(rng.integers(1, 5))
    A = rng.normal(size=(d, d)) * rng.choice([0.1, 1.0, 3.0])
    if rng.integers(3) == 0:
        A = A @ A.T * rng.choice([-1, 1])
    return A, rng.normal(size=(p, d)), float(rng.choice([0.3, 1.0, 2.0])), int(rng.integers(3, 9))


def in_ball(n, d, R, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    inside = np.where(rng.integers(2, size=(n, 1)), 1.0, rng.uniform(size=(n, 1)))
    return R * inside * x / np.linalg.norm(x, axis=1, keepdims=True)


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


# one at the centre, others spread


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_spread_tokens_answer_as_much_as_is_said(seed):
    A, V, R, n = problem(seed)
    x = spread(A, V, R, n)
    assert x.shape == (n, len(A))
    assert (x[0] == 0).all()
    assert np.abs(x.sum(axis=0)).max() <= ROUNDING
    assert (np.linalg.norm(x, axis=1) > 0).sum() == 2 * ((n - 1) // 2)
    bound = spread_bound(A, V, R, n)
    own = np.linalg.norm(dense(A, V, x)[0, :, 0], 2)
    assert abs(bound - own) <= EXPONENTIAL * own
    assert bound <= norm(A, V, x) * (1 + EXPONENTIAL)


def test_the_token_at_the_centre_takes_away_from_its_own_answer_where_A_is_negative():
    """c - 1/n for A = -I and c + 1/n for A = I, c = R^2 (n-1)/n for odd n."""
    for n in (3, 9):
        c = 9 * (n - 1) / n
        assert spread_bound(-I1, I1, 3.0, n) == pytest.approx(c - 1 / n)
        assert spread_bound(I1, I1, 3.0, n) == pytest.approx(c + 1 / n)
        assert norm(-I1, I1, spread(-I1, I1, 3.0, n)) < c


def test_the_spread_grows_like_the_square_of_the_radius():
    """The factor is |Vu| |A^T u|, the largest among left vectors of A and right vectors of V."""
    matrices = [(SKEW, WIDE), *(problem(seed, least=2)[:2] for seed in range(20))]
    for A, V in matrices:
        directions = [*np.linalg.svd(A)[0].T, *np.linalg.svd(V)[2]]
        size = max(np.linalg.norm(V @ u) * np.linalg.norm(A.T @ u) for u in directions)
        R = 300 / math.sqrt(np.linalg.norm(A, 2))
        assert abs(spread_bound(A, V, R, 7) / (R**2 * size * 6 / 7) - 1) <= 1e-4
    for R in (8.0, 16.0):
        bound = spread_bound(SKEW, WIDE, R, 7)
        assert abs(norm(SKEW, WIDE, spread(SKEW, WIDE, R, 7)) / bound - 1) <= 0.01


# two leaders


def undecided(A, V, x, causal=False):
    """The answer of all but the leaders when these move along Au in opposite senses."""
    u = x[2] / np.linalg.norm(x[2])
    step = A @ u / np.linalg.norm(A @ u) / math.sqrt(2)
    J = dense(A, V, x, causal)[2:]
    return np.linalg.norm(J[:, :, 0] @ step - J[:, :, 1] @ step)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_two_leaders_answer_as_much_as_is_said(seed):
    A, V, R, n = problem(seed, least=3)
    x, bound = two_leaders(A, V, R, n), two_leaders_bound(A, V, R, n)
    assert x.shape == (n, len(A))
    assert np.linalg.norm(x, axis=1).max() <= R * (1 + ROUNDING)
    assert bound > 0
    assert abs(bound / undecided(A, V, x) - 1) <= EXPONENTIAL * 100
    across = x[0] - x[1]
    size = np.linalg.norm(across) * np.linalg.norm(A, 2) * R
    assert abs(across @ x[2]) <= EXPONENTIAL * size + EXPONENTIAL
    assert abs(across @ A @ x[2]) <= EXPONENTIAL * size + EXPONENTIAL
    assert bound <= norm(A, V, x) * (1 + EXPONENTIAL)
    assert bound <= undecided(A, V, x, causal=True) * (1 + EXPONENTIAL * 100)
    assert bound <= norm(A, V, x, causal=True) * (1 + EXPONENTIAL)


@pytest.mark.parametrize("A", [-I2, I2, np.diag([1.0, -2.0])])
def test_two_dimensions_are_enough_for_symmetric_matrices(A):
    bound = two_leaders_bound(A, I2, 2.0, 9)
    assert 0 < bound <= norm(A, I2, two_leaders(A, I2, 2.0, 9))


@pytest.mark.parametrize(("A", "V"), [(-I3, I3), (SKEW, WIDE), (SKEW.T @ SKEW, np.diag([1.0, 5.0, 2.0]))])  # fmt: skip
def test_the_leaders_stand_nearly_as_well_as_they_can(A, V):
    """A search over all places, both eigenvectors and all w orthogonal to u and Au finds no better."""
    R, n, best = 2.0, 12, 0.0
    rng = np.random.default_rng(0)
    angle, r = rng.uniform(0, math.pi / 2, 20_000), rng.uniform(-R, R, 20_000)
    a, b = R * np.cos(angle), R * np.sin(angle)
    for u in np.linalg.eigh((A + A.T) / 2)[1].T[[0, -1]]:
        p = 1 / (1 + (n - 2) / 2 * np.exp(-r * (u @ A @ u) * (a - r)))
        place = (math.sqrt((n - 2) / 2) * p * b * np.abs(r)).max()
        basis = np.linalg.svd(np.vstack([u, A @ u]))
        free = basis[2][np.pad(basis[1], (0, 1)) < 1e-9]
        turns = rng.normal(size=(500, len(free))) @ free
        w = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        stretch = np.linalg.norm(w @ V.T, axis=1).max()
        best = max(best, place * stretch * np.linalg.norm(A @ u))
    bound = two_leaders_bound(A, V, R, n)
    assert 0.99 * best <= bound <= 1.01 * best


def test_two_leaders_need_room():
    with pytest.raises(ValueError, match="orthogonal to u and Au, got dimension 1"):
        two_leaders(I1, I1, 1.0, 4)
    with pytest.raises(ValueError, match="orthogonal to u and Au, got dimension 2"):
        two_leaders_bound([[1.0, 1.0], [-1.0, 0.0]], I2, 1.0, 4)


def test_without_scores_or_values_there_is_nothing_to_bound():
    assert two_leaders_bound(0 * I2, I2, 1.0, 4) == 0
    assert two_leaders_bound(I2, 0 * I2, 1.0, 4) == 0
    assert spread_bound(I2, 0 * I2, 1.0, 4) == 0
    assert upper_bound(I2, 0 * I2, 1.0, 4) == 0
    assert sharper_lower_bound(0 * I2, 1.0, 5) == pytest.approx(2 / 5)


# large radii


@MASKS
def test_the_limit_of_large_radii(causal):
    rng = np.random.default_rng(6)
    x, V = rng.normal(size=(7, 3)), rng.normal(size=(2, 3))
    limit = large_radius(SKEW, V, x, causal=causal)
    scores = [[xi @ SKEW.T @ xj for xj in x[: i + 1 if causal else 7]] for i, xi in enumerate(x)]
    leaders = [int(np.argmax(row)) for row in scores]
    assert limit.leaders.tolist() == leaders
    assert limit.multiplicity == max(leaders.count(j) for j in leaders)
    seconds = [sorted(row)[-1] - sorted(row)[-2] for row in scores if len(row) > 1]
    assert abs(limit.margin - min(seconds)) <= ROUNDING * 10
    assert limit.value == pytest.approx(np.linalg.norm(V, 2) * math.sqrt(limit.multiplicity))
    r = math.sqrt(60 / limit.margin)
    layer = SoftmaxAttention(SKEW, I3, V, causal)
    assert abs(local_constant(layer, r * x, 1e-9).value / limit.value - 1) <= 1e-8
    assert norm(SKEW, V, r * x, causal) == pytest.approx(limit.value)


def test_ties_have_no_margin_and_no_limit():
    """The token at 0 is undecided at every radius, and answers with the square of it."""
    x = np.array([[0.0], [1.0], [-1.0]])
    assert large_radius(I1, I1, x).margin == 0
    assert norm(I1, I1, 10 * x) > 60


def test_a_single_token_leads_itself():
    for causal in (False, True):
        got = large_radius(I2, 3 * I2, [[1.0, 2.0]], causal=causal)
        assert got.value == 3
        assert got.leaders.tolist() == [0]
        assert got.margin == math.inf


def test_the_constant_along_a_ray_is_not_monotone():
    layer, x = SoftmaxAttention(-I1, I1, I1), np.array([[1.0]] + 7 * [[-1.0]])
    one, two, three = (local_constant(layer, r * x, 1e-6).value for r in (0.3, 1.4, 6.0))
    assert one < two > three
    assert abs(three / large_radius(-I1, I1, x).value - 1) <= 1e-6


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
