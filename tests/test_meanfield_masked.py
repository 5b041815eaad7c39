"""The masked layer on measures: the causal layer, ties, weights, and what is refused."""

import numpy as np
import pytest
from clouds import cloud, masses
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import (
    CONDITIONED,
    FLOW,
    ROUNDING,
    SOLVED,
)

from attnflow import flows
from attnflow.attention import (
    L2Attention,
    MultiHead,
    SinkhornAttention,
    SoftmaxAttention,
    UnnormalisedAttention,
)
from attnflow.meanfield import (
    MaskedMeanField,
    running_mean_norm,
)

I2 = np.eye(2)


def heads():
    rng = np.random.default_rng(5)
    mats = rng.normal(size=(9, 2, 2)) * 0.7
    return {
        "softmax": (SoftmaxAttention, mats[:3], {}),
        "L2": (L2Attention, mats[3:6], {}),
        "unnormalised": (UnnormalisedAttention, mats[3:6], {}),
        "sinkhorn": (SinkhornAttention, mats[6:], {"eps": 0.8, "tol": 1e-12}),
        "sinkhorn psd": (SinkhornAttention, [mats[0], mats[0], mats[1]], {"tol": 1e-12}),
    }


def build(name, causal=False):
    if name != "many":
        kind, matrices, options = heads()[name]
        return kind(*matrices, causal, **options)
    W = np.random.default_rng(6).normal(size=(3, 2, 2))
    return MultiHead([build(k, causal) for k in ("softmax", "L2", "sinkhorn")], W)


NAMES = pytest.mark.parametrize("name", [*heads(), "many"])


def brute(attention, s, x, w):
    """Row by row: the layer on the points up to s_i, whose masses are divided by their sum."""
    out = []
    for si, xi in zip(s, x, strict=True):
        seen = [j for j in range(len(x)) if s[j] <= si]
        mass = sum(w[j] for j in seen)
        out.append(attention.field(xi[None], x[seen], w[seen] / mass)[0])
    return np.array(out)


@NAMES
@pytest.mark.parametrize("weighted", [False, True])
def test_with_positions_i_over_n_it_is_the_causal_layer(name, weighted):
    n = 7
    x, w = cloud(n, 2), masses(n) if weighted else None
    masked, causal = MaskedMeanField(build(name), np.arange(1, n + 1) / n), build(name, causal=True)
    assert np.abs(masked.velocity(x, w) - causal.velocity(x, w)).max() <= SOLVED
    assert masked.matrix(x, w).shape == causal.matrix(x, w).shape
    assert np.abs(masked.matrix(x, w) - causal.matrix(x, w)).max() <= SOLVED


@NAMES
@settings(max_examples=8, deadline=None, derandomize=True)
@given(n=st.integers(1, 7), seed=st.integers(0, 99))
def test_every_point_averages_the_points_up_to_its_position(name, n, seed):
    """Positions on a coarse grid and in no order, so that there are ties."""
    rng = np.random.default_rng(seed)
    s, x, w = rng.integers(0, 5, n) / 4, cloud(n, 2, seed), masses(n, seed)
    got = MaskedMeanField(build(name), s).velocity(x, w)
    assert got.shape == (n, 2)
    assert np.abs(got - brute(build(name), s, x, w)).max() <= SOLVED


@NAMES
def test_points_at_one_position_see_each_other_as_without_a_mask(name):
    x, w = cloud(6, 2), masses(6)
    got = MaskedMeanField(build(name), np.full(6, 0.4)).velocity(x, w)
    assert np.abs(got - build(name).velocity(x, w)).max() <= SOLVED


def test_tied_points_see_each_other_and_all_before_but_none_after():
    P = MaskedMeanField(build("softmax"), [0.0, 0.5, 0.5, 1.0]).matrix(cloud(4, 2))
    assert (P > 0).tolist() == [
        [True, False, False, False],
        [True, True, True, False],
        [True, True, True, False],
        [True, True, True, True],
    ]
    assert np.abs(P.sum(axis=1) - 1).max() <= ROUNDING


@NAMES
def test_a_weight_is_as_many_copies(name):
    s, x = np.array([0.1, 0.3, 0.7, 0.7]), cloud(4, 2)
    copies = [3, 1, 2, 2]
    weighted = MaskedMeanField(build(name), s).velocity(x, np.array(copies) / 8)
    repeated = MaskedMeanField(build(name), np.repeat(s, copies)).velocity(np.repeat(x, copies, 0))
    assert np.abs(repeated - np.repeat(weighted, copies, 0)).max() <= SOLVED


@NAMES
def test_the_order_in_which_points_are_listed_does_not_matter(name):
    s, x, w = np.array([0.0, 0.2, 0.2, 0.6, 1.0]), cloud(5, 2), masses(5)
    want = MaskedMeanField(build(name), s).velocity(x, w)
    order = np.random.default_rng(3).permutation(5)
    got = MaskedMeanField(build(name), s[order]).velocity(x[order], w[order])
    assert np.abs(got - want[order]).max() <= SOLVED


def test_only_the_order_of_positions_matters():
    x, attention = cloud(4, 2), build("L2")
    one = MaskedMeanField(attention, [0.0, 0.2, 0.3, 1.0]).velocity(x)
    assert (MaskedMeanField(attention, [0.1, 0.11, 0.9, 0.95]).velocity(x) == one).all()


def test_what_comes_later_is_not_seen():
    x, masked = cloud(4, 2), MaskedMeanField(build("sinkhorn"), [0.0, 0.4, 0.4, 0.9])
    before = masked.velocity(x)
    x[3] += 10
    after = masked.velocity(x)
    assert (before[:3] == after[:3]).all()
    assert np.abs(before[3] - after[3]).max() > 1


def test_points_without_mass_are_moved_but_not_seen():
    s, x, w = [0.0, 0.0, 0.5, 1.0], cloud(4, 2), np.array([0.0, 0.5, 0.0, 0.5])
    attention = build("softmax")
    got = MaskedMeanField(attention, s).velocity(x, w)
    assert np.abs(got[:3] - x[1] @ attention.V.T).max() <= ROUNDING
    x[2] += 5
    assert np.abs(MaskedMeanField(attention, s).velocity(x, w)[3] - got[3]).max() <= ROUNDING


def test_positions_keep_while_tokens_flow():
    """The ordinary differential equation of the masked layer is that of the causal one."""
    x, times = cloud(5, 2), [0.0, 0.5]
    masked = flows.ode(MaskedMeanField(build("softmax"), np.arange(1, 6) / 5), x, times)
    causal = flows.ode(build("softmax", causal=True), x, times)
    assert np.abs(masked.states - causal.states).max() <= FLOW


def test_values_may_have_another_dimension():
    masked = MaskedMeanField(SoftmaxAttention(I2, I2, np.ones((3, 2))), [0.0, 1.0])
    assert masked.velocity(cloud(2, 2)).shape == (2, 3)


@pytest.mark.parametrize("positions", [[-0.1, 0.5], [0.5, 1.1], [2.0], []])
def test_positions_outside_the_unit_interval_are_refused(positions):
    with pytest.raises(ValueError, match=r"positions must lie in \[0, 1\], got "):
        MaskedMeanField(build("softmax"), positions)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([0.0, np.nan], "positions must be finite, got nan"),
        ([[0.0, 1.0]], "positions must have 1 axes, got shape"),
        (["first"], "positions must be an array of real numbers"),
    ],
)
def test_positions_that_are_no_numbers_are_refused(positions, message):
    with pytest.raises(ValueError, match=message):
        MaskedMeanField(build("softmax"), positions)


@pytest.mark.parametrize("name", ["softmax", "L2", "sinkhorn", "many"])
def test_a_layer_that_is_causal_already_is_refused(name):
    with pytest.raises(ValueError, match="attention must not be causal, since the mask comes from"):
        MaskedMeanField(build(name, causal=True), [0.0, 1.0])
    with pytest.raises(ValueError, match="the mask comes from the positions"):
        MaskedMeanField(MultiHead([build("L2"), build("softmax", causal=True)]), [0.0, 1.0])


@NAMES
def test_the_first_points_must_carry_mass(name):
    masked = MaskedMeanField(build(name), [0.25, 0.0, 1.0])
    for f in (masked.velocity, masked.matrix):
        with pytest.raises(ValueError, match="the points up to position 0 must carry mass, got 0"):
            f(cloud(3, 2), [0.5, 0.0, 0.5])


def test_as_many_tokens_as_positions():
    masked = MaskedMeanField(build("softmax"), [0.0, 0.5, 1.0])
    for f in (masked.velocity, masked.matrix):
        with pytest.raises(ValueError, match="x must have one token per position, 3, got 2"):
            f(cloud(2, 2))
        with pytest.raises(ValueError, match="weights must have one entry per token, 3"):
            f(cloud(3, 2), [0.5, 0.5])


def test_tokens_of_another_dimension_are_refused_with_the_rule():
    for name in ("softmax", "sinkhorn", "many"):
        with pytest.raises(ValueError, match=r"x must have 2 columns, got shape \(2, 3\)"):
            MaskedMeanField(build(name), [0.0, 1.0]).velocity(cloud(2, 3))


def test_velocities_that_are_no_numbers_are_refused_as_by_the_layer_itself():
    I1 = np.eye(1)
    for attention in (
        SoftmaxAttention(0 * I1, I1, 1e200 * I1),
        MaskedMeanField(SoftmaxAttention(0 * I1, I1, 1e200 * I1), [0.0, 1.0]),
    ):
        with pytest.raises(ValueError, match="velocities must be finite"):
            attention.velocity([[1e200], [1e200]])


@pytest.mark.parametrize(("ratio", "steps"), [(1.5, 3), (2.0, 20), (1.2, 100), (1.05, 300)])
def test_the_running_mean_at_geometric_positions_has_the_norm_of_the_formula(ratio, steps):
    s = ratio ** np.arange(-steps, 1.0)
    w = np.diff(s, prepend=0)
    blind = SoftmaxAttention([[0.0]], [[0.0]], [[1.0]])
    P = MaskedMeanField(blind, s).matrix(np.zeros((len(s), 1)), w)
    norm = np.linalg.norm(np.sqrt(w)[:, None] * P / np.sqrt(w), 2)
    assert abs(running_mean_norm(ratio, steps) / norm - 1) <= CONDITIONED


@pytest.mark.parametrize("bad", [1.0, 0.5, -2.0])
def test_positions_must_grow(bad):
    with pytest.raises(ValueError, match=f"ratio must be above 1, got {bad}"):
        running_mean_norm(bad, 10)


@pytest.mark.parametrize(
    ("positions", "said"), [([-0.5, 0.25], r"-0\.5 to 0\.25"), ([0.5, 1.5], r"0\.0 to 1\.5")]
)
def test_positions_are_refused_with_where_they_reach(positions: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=f"got {said}$"):
        MaskedMeanField(SoftmaxAttention(I2, I2, I2), positions)
