import numpy as np
import pytest

from attnflow.attention import L2Attention, SoftmaxAttention
from attnflow.gaussian import fate, gaussian_flow, stored_fates

I2, I3 = np.eye(2), np.eye(3)


def test_each_outcome_is_told():
    assert fate(SoftmaxAttention(I2, I2, I2), I2).outcome == "blow-up"
    rest = fate(SoftmaxAttention(-np.diag([1.0, 0.0]), I2, I2), [[1.0, 0.3], [0.3, 0.5]])
    assert (rest.outcome, rest.rank, rest.time) == ("limit", 1, 300.0)
    shear = SoftmaxAttention([[0, 1], [-1, 0]], I2, [[0, -1], [0, 0]])
    assert fate(shear, np.diag([0.7, 0.5])).outcome == "growth"
    assert fate(L2Attention(I2, I2, I2), I2).outcome == "growth"


def test_slow_growth_is_not_yet_decided():
    """diag(e^{2ct}, c) with c = 0.005 has grown twentyfold at time 300."""
    shear = SoftmaxAttention([[0, 1], [-1, 0]], I2, [[0, -1], [0, 0]])
    assert fate(shear, np.diag([1.0, 0.005])).outcome == "undecided"


def test_a_largest_eigenvalue_that_grows_by_a_third_has_no_limit() -> None:
    """diag(e^{2ct}, c) with c = 0.001 grows by e^{0.3} from time 150 to 300."""
    shear = SoftmaxAttention([[0, 1], [-1, 0]], I2, [[0, -1], [0, 0]])
    found = fate(shear, np.diag([1.0, 0.001]))
    assert abs(np.log(found.cov[0, 0]) - 0.6) <= 1e-4
    assert (found.outcome, found.rank) == ("undecided", -1)


def test_a_blow_up_along_a_spiral_is_one():
    """A definite, V with complex eigenvalues: the rate is no guide, since the axis turns."""
    Q, K, V = np.random.default_rng([0, 2, 149]).normal(size=(3, 2, 2)) / np.sqrt(2)
    layer = SoftmaxAttention(Q, K, V)
    assert gaussian_flow(layer, I2, [0.0, 30.0], rtol=1e-6).stopped == "divergence"
    assert fate(layer, I2).outcome == "blow-up"


def test_a_limit_is_decided_at_the_last_horizon_only():
    closing = SoftmaxAttention(-I2, I2, I2)
    early, late = (fate(closing, I2, horizons=(end,)) for end in (0.2, 300.0))
    assert early.outcome == "undecided"
    assert (late.outcome, late.rank) == ("limit", 0)


@pytest.mark.parametrize("bad", [[], [0.0, 1.0], [3.0, 2.0], [-1.0]])
def test_horizons_grow(bad):
    with pytest.raises(ValueError, match="horizons must be positive and increasing, got "):
        fate(SoftmaxAttention(I2, I2, I2), I2, horizons=bad)


def test_the_stored_run_is_whole_and_can_be_repeated():
    stored, made = stored_fates()
    for d, seen in stored.items():
        assert len(seen.words) == len(seen.ranks) == made["draws"]
        assert set(seen.words) <= {"blow-up", "growth", "limit", "undecided"}
        assert len(seen.numbers) <= seen.count("growth")
        assert all((rank >= 0) == (word == "limit") for word, rank in zip(*seen[:2], strict=True))
        for k in range(3):
            Q, K, V = np.random.default_rng([made["seed"], d, k]).normal(size=(3, d, d))
            layer = SoftmaxAttention(*(M / np.sqrt(d) for M in (Q, K, V)))
            again = fate(layer, np.eye(d))
            assert (again.outcome, again.rank) == (seen.words[k], seen.ranks[k])
