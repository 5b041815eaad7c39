import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import DISPLACEMENT, PRODUCT_DISTANCE, ROUNDING

from attnflow.kernels import blocked
from attnflow.kernels.dense import BLOCK_ENTRIES, DenseKernel, squared_distances
from attnflow.transport import bridge


def in_long_double(x, eps, v):
    """K v, the displacement, and the sum of the absolute values of the latter's terms."""
    x, v = x.astype(np.longdouble), v.astype(np.longdouble)
    gap = x[None, :, :] - x[:, None, :]
    k = np.exp(-(gap**2).sum(-1) / (2 * np.longdouble(eps)))
    terms = k[:, :, None] * v[None, :, None] * gap
    return k @ v, terms.sum(1), np.abs(terms).sum(1)


def relative_error(got, want, size):
    return float(np.max(np.abs(got - want) / np.where(size > 0, size, 1)))


def errors_around_a_half(eps, d):
    """Relative errors of displacement and apply, for tokens as far apart as the kernel sees."""
    rng = np.random.default_rng(d)
    x = 0.5 + np.sqrt(eps) * rng.normal(size=(40, d))
    v = rng.uniform(0.5, 1.5, size=40)
    want_apply, want, size = in_long_double(x, eps, v)
    kernel = DenseKernel(x, eps)
    return (
        relative_error(kernel.displacement(v), want, size),
        relative_error(kernel.apply(v), want_apply, want_apply),
    )


@pytest.mark.parametrize("eps", [1e-20, 1e-12, 1e-4, 1.0, 1e6])
@pytest.mark.parametrize("d", [1, 3, 16])
def test_displacement_keeps_relative_accuracy_at_every_temperature(eps, d):
    assert np.max(errors_around_a_half(eps, d)) <= DISPLACEMENT


@pytest.mark.parametrize("eps", [1e-20, 1e-4, 1.0])
@pytest.mark.parametrize("d", [17, 40])
def test_displacement_keeps_relative_accuracy_above_sixteen_dimensions(eps, d):
    assert np.max(errors_around_a_half(eps, d)) <= PRODUCT_DISTANCE


def test_displacement_inside_a_small_cluster_does_not_notice_a_far_one():
    """Coordinates near zero hold digits that a common shift would round away."""
    eps = 1e-12
    rng = np.random.default_rng(0)
    x = np.concatenate([np.sqrt(eps) * rng.normal(size=20), np.full(20, 1.0)])[:, None]
    v = rng.uniform(0.5, 1.5, size=40)
    _, want, size = in_long_double(x, eps, v)
    assert relative_error(DenseKernel(x, eps).displacement(v), want, size) <= DISPLACEMENT


def test_displacement_is_the_same_over_block_boundaries():
    n = int(np.sqrt(BLOCK_ENTRIES)) + 50
    x = np.random.default_rng(0).normal(size=(n, 1))
    v = np.linspace(0.5, 1.5, n)
    kernel = DenseKernel(x, 0.3)
    rows = np.array([0, BLOCK_ENTRIES // n - 1, BLOCK_ENTRIES // n, n - 1])
    gap = x[None, :, 0] - x[rows, 0][:, None]
    want = (np.exp(-(gap**2) / 0.6) * v * gap).sum(1)
    assert np.abs(kernel.displacement(v)[rows, 0] - want).max() <= ROUNDING * n


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    d=st.integers(1, 20),
    eps=st.sampled_from([0.01, 1.0, 50.0]),
)
def test_pairs_of_equal_masses_push_with_equal_and_opposite_force(seed, n, d, eps):
    x = np.random.default_rng(seed).normal(size=(n, d))
    out = DenseKernel(x, eps).displacement(np.ones(n))
    assert np.abs(out.sum(axis=0)).max() <= ROUNDING * n**2


def test_one_token_does_not_displace_itself():
    kernel = DenseKernel(np.array([[3.0, -2.0]]), 0.1)
    assert kernel.apply(np.array([2.0])).tolist() == [2.0]
    assert kernel.displacement(np.array([2.0])).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("d", [1, 2, 16, 17, 64])
def test_squared_distances_are_what_they_say(d):
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(7, d)), rng.normal(size=(5, d))
    want = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1) / 0.7
    got = squared_distances(x, y, 0.7)
    assert got.shape == (7, 5)
    assert np.abs(got - want).max() <= PRODUCT_DISTANCE


@pytest.mark.parametrize("d", [2, 32])
def test_squared_distances_are_never_negative(d):
    x = np.random.default_rng(0).normal(size=(30, d))
    assert squared_distances(x, x).min() >= 0


@pytest.mark.parametrize(
    ("x", "y", "scale"), [(1e200, -1e200, 1.0), (1e300, 2e300, 1e-20), (1e100, 2e100, 1e-120)]
)
@pytest.mark.parametrize("d", [1, 20])
def test_squared_distances_overflow_to_infinity_and_never_to_nan(x, y, scale, d):
    got = squared_distances(np.full((1, d), x), np.full((1, d), y), scale)
    assert got[0, 0] == np.inf


@pytest.mark.parametrize("size", [1e150, 1e300])
def test_the_kernel_of_tokens_far_apart_is_the_identity(size):
    kernel = DenseKernel(size * np.array([[0.0], [1.0], [-1.0]]), 1e-3)
    assert kernel.matrix.tolist() == np.eye(3).tolist()
    assert kernel.displacement(np.ones(3)).tolist() == [[0.0]] * 3


@pytest.mark.parametrize("d", [1, 4, 20])
@pytest.mark.parametrize("entries", [60, 10**6])
def test_the_blocked_kernel_is_the_dense_one(d, entries, monkeypatch):
    monkeypatch.setattr(blocked, "BLOCK_ENTRIES", entries)
    rng = np.random.default_rng(d)
    x, v = rng.normal(size=(40, d)), rng.random(40)
    one, other = DenseKernel(x, 0.7), blocked.BlockedKernel(x, 0.7)
    assert np.abs(one.apply(v) - other.apply(v)).max() <= 40 * ROUNDING
    assert np.abs(one.displacement(v) - other.displacement(v)).max() <= 400 * ROUNDING


def test_a_bridge_of_many_tokens_in_many_dimensions_needs_no_matrix(monkeypatch):
    monkeypatch.setattr(bridge, "DENSE_BYTES", 8 * 50**2)
    x = np.random.default_rng(0).normal(size=(60, 5))
    found = bridge.self_bridge(x, 0.5)
    assert isinstance(found.kernel, blocked.BlockedKernel)
    dense = bridge.self_bridge(x, 0.5, method="dense")
    assert np.abs(found.barycentric() - dense.barycentric()).max() <= 400 * ROUNDING
    assert isinstance(bridge.self_bridge(x[:50], 0.5).kernel, DenseKernel)
