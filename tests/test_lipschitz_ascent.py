import warnings

import numpy as np
import pytest
from clouds import cloud
from tolerances import EXPONENTIAL, FIRST_DIFFERENCE, ROUNDING

from attnflow import lipschitz
from attnflow.attention import L2Attention, MultiHead, SoftmaxAttention
from attnflow.lipschitz import Head, Linearised, ascent, local_constant, worse

I1, I2 = np.eye(1), np.eye(2)
AWAY = SoftmaxAttention(-I2, I2, I2)


def dense_norm(layer, x):
    L = Linearised(layer, x)
    basis = np.eye(x.size).reshape(-1, *x.shape)
    return np.linalg.norm([L.jvp(e).ravel() for e in basis], 2)


def trained(seed=0, n=5, d=3):
    """Two heads with all that a head can have."""
    rng = np.random.default_rng(seed)
    return [
        Head(*rng.normal(size=(2, 2, d)), rng.normal(size=(p, d)), rng.normal(size=(4, p)), True,
             rng.normal(size=2), rng.normal(size=2), rng.normal(size=(n, 1)))
        for p in (2, 3)
    ]  # fmt: skip


@pytest.mark.parametrize("layer", [
    AWAY,
    SoftmaxAttention(I2, [[0.0, 1.0], [-1.0, 0.5]], I2, causal=True),
    MultiHead([AWAY, SoftmaxAttention(I2, I2, 2 * I2)], [I2, np.diag([1.0, -1.0])]),
])  # fmt: skip
def test_it_climbs_and_stays_in_the_ball(layer):
    x, R = cloud(6, 2), 1.5
    got = worse(layer, x, R, max_iter=40)
    assert got.x.shape == (6, 2)
    assert np.linalg.norm(got.x, axis=1).max() <= R * (1 + ROUNDING)
    assert (np.diff(got.history) > 0).all()
    assert got.history[-1] == got.value > got.history[0]
    assert len(got.history) <= got.iterations + 1 <= 41
    assert abs(got.value / dense_norm(layer, got.x) - 1) <= 2e-6
    assert got.value <= dense_norm(layer, got.x) * (1 + EXPONENTIAL)


def test_the_heads_of_a_trained_layer_climb_too():
    layer, x = trained(), cloud(5, 3)
    got = worse(layer, x, 2.0, max_iter=25)
    assert got.value > 1.2 * got.history[0]
    assert abs(got.value / dense_norm(layer, got.x) - 1) <= 2e-6


def test_tokens_outside_are_drawn_to_the_sphere_before_the_first_step():
    x = np.array([[3.0, 4.0], [0.1, -0.2], [0.0, 0.0], [-9.0, 0.0]])
    inside = np.array([[1.2, 1.6], [0.1, -0.2], [0.0, 0.0], [-2.0, 0.0]])
    got = worse(AWAY, x, 2.0, max_iter=1)
    assert abs(got.history[0] / dense_norm(AWAY, inside) - 1) <= 2e-6
    assert (x[0] == [3.0, 4.0]).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_slope_is_the_gradient_of_the_local_constant(seed):
    """The largest singular value is simple here, and its vectors may be held."""
    layer, x = trained(seed), cloud(5, 3, seed) / 2
    at = local_constant(layer, x, 1e-12)
    slope = Linearised(layer, x).bend(at.left, at.right)
    h = 1e-4
    for e in cloud(3 * 5, 3, seed + 9).reshape(3, 5, 3):
        e /= np.linalg.norm(e)
        difference = (dense_norm(layer, x + h * e) - dense_norm(layer, x - h * e)) / (2 * h)
        assert abs(difference - np.vdot(slope, e)) <= FIRST_DIFFERENCE * max(1, at.value) * 10


def test_where_it_arrives_no_small_step_goes_up():
    got = worse(AWAY, lipschitz.two_leaders(-I2, I2, 2.0, 6), 2.0)
    assert got.converged
    assert got.residual <= ascent.SMALLEST_STEP
    rng = np.random.default_rng(1)
    for _ in range(30):
        y = got.x + 1e-3 * rng.normal(size=got.x.shape)
        y *= np.minimum(1, 2.0 / np.linalg.norm(y, axis=1, keepdims=True))
        assert dense_norm(AWAY, y) <= got.value * (1 + 1e-4)


def test_it_comes_back_to_the_two_leaders():
    x = lipschitz.two_leaders(-I2, I2, 3.0, 16)
    got = worse(AWAY, x + 0.2 * cloud(16, 2), 3.0, max_iter=60)
    assert got.value >= 0.98 * dense_norm(AWAY, x)
    assert got.value >= lipschitz.two_leaders_bound(-I2, I2, 3.0, 16)
    assert got.value <= lipschitz.upper_bound(-I2, I2, 3.0, 16)


def test_it_finds_worse_than_the_tokens_on_a_line():
    """From every one of four random starts, twice what the line gives."""
    line = dense_norm(AWAY, lipschitz.adversarial(-I2, 2.0, 8))
    for seed in range(4):
        got = worse(AWAY, cloud(8, 2, seed), 2.0, max_iter=60)
        assert got.value >= 2 * line
        assert got.value <= lipschitz.upper_bound(-I2, I2, 2.0, 8)


def test_steps_run_out():
    got = quiet(AWAY, cloud(6, 2), 2.0, max_iter=2)
    assert not got.converged
    assert got.residual > ascent.SMALLEST_STEP
    assert got.iterations == 2
    assert len(got.history) == 3


def quiet(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return worse(*args, **kwargs)


def test_where_there_is_no_slope_it_stops_at_once():
    """No values, no scores, one token: the Jacobian does not depend on the tokens."""
    for layer, x in (
        (SoftmaxAttention(I2, I2, 0 * I2), cloud(4, 2)),
        (SoftmaxAttention(0 * I2, 0 * I2, I2), cloud(4, 2)),
        (SoftmaxAttention(I2, I2, I2), cloud(1, 2)),
    ):
        got = worse(layer, x, 9.0)
        assert got.converged
        assert got.residual == 0
        assert len(got.history) == 1
        assert np.abs(got.x - x).max() <= ROUNDING


def test_the_same_start_gives_the_same_end():
    one, two = (worse(AWAY, cloud(5, 2), 1.5, max_iter=10) for _ in range(2))
    assert (one.x == two.x).all()
    assert (one.history == two.history).all()


def test_units_do_not_matter():
    """Tokens twice as large and scores four times smaller: the same layer, the same climb."""
    small = worse(AWAY, cloud(5, 2), 1.5, max_iter=6)
    large = worse(SoftmaxAttention(-I2 / 4, I2, I2), 2 * cloud(5, 2), 3.0, max_iter=6)
    assert np.abs(large.history / small.history - 1).max() <= 1e-5
    assert np.abs(large.x / 2 - small.x).max() <= 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"R": 0.0}, r"R must be a finite number > 0, got 0\.0"),
        ({"R": -2.0}, "R must be a finite number > 0, got -2"),
        ({"R": np.inf}, "R must be a finite number > 0, got inf"),
        ({"x": [[1.0, np.nan]]}, "x must be finite, got nan"),
        ({"x": np.ones((3, 4))}, "x must have 2 columns, got 4"),
        ({"max_iter": 0}, "max_iter must be a whole number >= 1, got 0"),
        ({"max_iter": 2.5}, "max_iter must be a whole number >= 1, got 2.5"),
        ({"tol": -1e-3}, "tol must be a finite number > 0, got -0.001"),
        ({"tol": 1e-16}, "tol must be at least 64 roundings of float64"),
        ({"layer": L2Attention(I2, I2, I2)}, "softmax attention, got L2Attention"),
        ({"layer": []}, "a layer must have at least one head, got none"),
    ],
)
def test_what_cannot_be_climbed_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        worse(**{"layer": AWAY, "x": [[1.0, 2.0], [0.0, 1.0]], "R": 2.0, **change})
