import sys

import numpy as np
import pytest
from clouds import cloud
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import DEFAULT_TOL, FAST_BRIDGE, ROUNDING

from attnflow import transport
from attnflow.errors import MissingPackage
from attnflow.kernels import DenseKernel, transforms
from attnflow.kernels.fast import FastKernel, cheaper
from attnflow.transport import bridge as bridge_module

ACCURACIES = [1e-3, 1e-6, 1e-10, 1e-13]
#: All vectors have |v|_1 = 1: errors are then in the units of the accuracy.
CASES = [(d, eps) for d in (1, 2) for eps in (1e-2, 0.1, 1.0, 30.0)] + [
    (3, 0.3),
    (3, 1.0),
    (3, 30.0),
]


def vectors(x, seed=1):
    """One token, the outermost one, all with random signs, and all with random masses."""
    rng, n = np.random.default_rng(seed), len(x)
    signed = rng.normal(size=n)
    corner = np.eye(n)[np.argmax(x[:, 0])]
    return [np.eye(n)[0], corner, signed / np.abs(signed).sum(), rng.dirichlet(np.full(n, 0.3))]


def errors(x, eps, accuracy):
    """The largest errors of apply and of displacement, in units of the accuracy."""
    fast, dense = FastKernel(x, eps, accuracy), DenseKernel(x, eps)
    unit = min(np.sqrt(eps), np.ptp(x, axis=0).max()) or 1.0
    apply = [np.abs(fast.apply(v) - dense.apply(v)).max() for v in vectors(x)]
    displacement = [
        np.abs(fast.displacement(v) - dense.displacement(v)).max() / unit for v in vectors(x)
    ]
    return max(apply) / accuracy, max(displacement) / accuracy


# products


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize(("d", "eps"), CASES)
def test_the_error_is_below_the_accuracy_asked_for(d, eps, accuracy):
    apply, displacement = errors(cloud(200, d), eps, accuracy)
    assert apply <= 1
    assert displacement <= 1


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_the_accuracy_is_not_reached_by_doing_far_too_much(accuracy):
    worst = [max(errors(cloud(200, d), eps, accuracy)) for d, eps in CASES if d < 3]
    assert max(worst) >= 0.01
    more = FastKernel(cloud(200, 2), 0.1, accuracy / 10).modes
    assert np.prod(more) > np.prod(FastKernel(cloud(200, 2), 0.1, accuracy).modes)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("eps", [1e-6, 1e-4, 1e-3])
def test_displacements_keep_their_digits_where_they_are_small(d, eps):
    """K(v x) - x K(v) would have an error of accuracy times |x|, a thousand times sqrt(eps)."""
    x = 0.5 + 20 * np.sqrt(eps) * cloud(300, d)
    v = np.random.default_rng(1).uniform(0.5, 1.5, size=300)
    want = DenseKernel(x, eps).displacement(v)
    got = FastKernel(x, eps, 1e-12).displacement(v)
    assert np.abs(got - want).max() <= 1e-12 * np.sqrt(eps) * v.sum()
    assert np.abs(want).max() >= 0.1 * np.sqrt(eps)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    d=st.integers(1, 2),
    eps=st.sampled_from([0.01, 1.0, 1e4]),
    size=st.sampled_from([1e-3, 1.0, 5.0]),
)
def test_any_small_cloud_at_any_temperature(seed, n, d, eps, size):
    apply, displacement = errors(size * cloud(n, d, seed), eps, 1e-9)
    assert apply <= 1
    assert displacement <= 1


def test_tokens_in_a_line_or_at_one_place_need_no_volume():
    line = cloud(50, 3) * [1.0, 0.0, 0.0]
    assert max(errors(line, 0.1, 1e-10)) <= 1
    assert max(errors(np.ones((7, 3)), 0.1, 1e-10)) <= 1
    assert np.prod(FastKernel(line, 1e-3, 1e-10).modes) < 1e6


def test_translation_by_a_thousand_changes_what_its_rounding_changes():
    x, v = cloud(200, 2), np.full(200, 1 / 200)
    here, there = FastKernel(x, 0.1), FastKernel(x + 1e3, 0.1)
    assert np.abs(here.apply(v) - there.apply(v)).max() <= 1e-10
    assert np.abs(here.displacement(v) - there.displacement(v)).max() <= 1e-10


def test_clusters_far_apart_do_not_see_each_other():
    x = np.concatenate([cloud(50, 1), 1e3 + cloud(50, 1, seed=1)])
    assert max(errors(x, 0.1, 1e-10)) <= 1
    v = np.repeat([1.0, 0.0], 50) / 50
    assert np.abs(FastKernel(x, 0.1).apply(v)[50:]).max() <= 1e-10


def test_one_token_meets_only_itself():
    kernel = FastKernel(np.array([[3.0, -2.0]]), 0.1)
    assert abs(kernel.apply(np.array([2.0]))[0] - 2.0) <= 2e-10
    assert np.abs(kernel.displacement(np.array([2.0]))).max() <= 2e-10


# refusals

BAD = [
    ([[np.nan]], 1.0, 1e-10, "x must be finite, got nan"),
    ([], 1.0, 1e-10, "x must hold at least one token"),
    ([[0.0]], 0.0, 1e-10, "eps must be a finite number > 0, got 0.0"),
    ([[0.0]], -1.0, 1e-10, "eps must be a finite number > 0, got -1.0"),
    ([[0.0]], 1.0, 1e-20, "accuracy must lie in .* got 1e-20"),
    ([[0.0]], 1.0, 0.5, "accuracy must lie in .* got 0.5"),
    (np.zeros((2, 4)), 1.0, 1e-10, "needs d <= 3, got d = 4: use dense"),
    ([[0.0, 0.0], [1.0, 1.0]], 1e-12, 1e-10, r"at most 6.7e\+07 modes, .* use dense"),
    ([[0.0], [1e160]], 1.0, 1e-10, r"at most 6.7e\+07 modes, .* use dense"),
    ([[-1.7e308], [1.7e308]], 1.0, 1e-10, "take inf: use dense"),
]


@pytest.mark.parametrize(("x", "eps", "accuracy", "message"), BAD)
def test_the_kernel_refuses_what_it_cannot_do(x, eps, accuracy, message):
    with pytest.raises(ValueError, match=message):
        FastKernel(x, eps, accuracy)


@pytest.fixture
def without_finufft(monkeypatch):
    monkeypatch.setitem(sys.modules, "finufft", None)


def test_without_finufft_fast_says_what_to_install_and_auto_is_dense(without_finufft):
    x = cloud(3000, 1)
    with pytest.raises(MissingPackage, match=r"pip install 'attnflow\[fast\]'"):
        transport.self_bridge(x, 0.1, method="fast")
    assert isinstance(transport.self_bridge(x, 0.1).kernel, DenseKernel)


# the choice


@pytest.mark.parametrize(
    ("n", "d", "eps", "fast"),
    [
        (100, 2, 0.1, False),
        (500, 1, 0.1, False),
        (5000, 1, 0.1, True),
        (10_000, 2, 0.1, True),
        (10_000, 2, 0.001, True),
        (3000, 2, 1e-5, False),
        (10_000, 4, 0.1, False),
        (2000, 3, 0.01, False),
        (20_000, 3, 0.1, True),
    ],
)
def test_auto_takes_the_cheaper_kernel(n, d, eps, fast):
    assert cheaper(cloud(n, d), eps) is fast


def test_memory_decides_where_the_matrix_does_not_fit():
    x = 1e4 * cloud(14_000, 1)
    assert cheaper(x, 1e-4)
    assert not cheaper(1e12 * x, 1e-4)


# the bridge


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("d", "eps"), [(1, 1e-4), (1, 0.1), (1, 10.0), (2, 0.01), (2, 1.0), (2, 1e6), (3, 1.0)]
)
def test_the_fast_bridge_is_the_dense_one(d, eps, weighted):
    x = np.concatenate([cloud(400, d), np.zeros((5, d)), 2 * cloud(3, d).repeat(2, axis=0)])
    w = np.random.default_rng(2).dirichlet(np.ones(len(x))) if weighted else None
    fast = transport.self_bridge(x, eps, w, method="fast", tol=1e-11)
    dense = transport.self_bridge(x, eps, w, method="dense", tol=1e-11)
    assert isinstance(fast.kernel, FastKernel)
    assert fast.converged
    assert fast.iterations <= dense.iterations + 1
    assert np.abs(fast.scaling / dense.scaling - 1).max() <= FAST_BRIDGE
    assert np.abs(fast.barycentric() - dense.barycentric()).max() <= FAST_BRIDGE
    assert np.abs(fast.plan() - dense.plan()).max() <= FAST_BRIDGE


@pytest.mark.parametrize("tol", [1e-4, 1e-9, 1e-12])
@pytest.mark.parametrize("eps", [1e-2, 0.1, 10.0])
def test_the_marginal_of_the_exact_kernel_is_right_to_the_tolerance(tol, eps):
    x = cloud(500, 2)
    w = np.random.default_rng(2).dirichlet(np.full(500, 0.2))
    bridge = transport.self_bridge(x, eps, w, method="fast", tol=tol)
    assert bridge.converged
    assert np.abs(bridge.plan().sum(0) - w).sum() <= 1.1 * tol


def test_tokens_whose_mass_is_below_the_noise_do_not_break_the_iteration():
    x = np.concatenate([cloud(200, 2), [[8.0, 8.0], [-9.0, 3.0]]])
    w = np.append(np.full(200, 1 / 200), [1e-30, 1e-24])
    bridge = transport.self_bridge(x, 0.05, w / w.sum(), method="fast")
    assert bridge.converged
    assert np.isfinite(bridge.scaling).all()
    assert np.abs(bridge.plan().sum(0) - bridge.weights).sum() <= 1.1 * DEFAULT_TOL
    assert np.abs(bridge.barycentric()[200:] - x[200:]).max() <= ROUNDING


def test_tokens_without_mass_are_as_in_the_dense_bridge():
    x = cloud(300, 2)
    w = np.where(np.arange(300) % 3 == 0, 0.0, 1.0)
    fast, dense = (
        transport.self_bridge(x, 0.1, w / w.sum(), method=m, tol=1e-11) for m in ("fast", "dense")
    )
    assert not fast.scaling[w == 0].any()
    assert np.abs(fast.barycentric() - dense.barycentric()).max() <= FAST_BRIDGE
    z = cloud(9, 2, seed=5)
    assert np.abs(fast.conditional_mean(z) - dense.conditional_mean(z)).max() <= FAST_BRIDGE


def test_conditional_means_are_the_same_over_block_boundaries(monkeypatch):
    bridge = transport.self_bridge(cloud(40, 2), 0.1)
    z = cloud(23, 2, seed=1)
    whole = bridge.conditional_mean(z)
    monkeypatch.setattr(bridge_module, "BLOCK_ENTRIES", 200)
    assert np.abs(bridge.conditional_mean(z) - whole).max() <= ROUNDING


def test_the_fast_bridge_of_one_token_and_of_far_clusters():
    alone = transport.self_bridge([[2.0, -1.0]], 0.1, method="fast")
    assert np.abs(alone.barycentric() - [[2.0, -1.0]]).max() <= DEFAULT_TOL
    x = np.concatenate([cloud(60, 1), 500 + cloud(40, 1, seed=1)])
    both = transport.self_bridge(x, 0.1, method="fast", tol=1e-11)
    first = transport.self_bridge(x[:60], 0.1, method="dense", tol=1e-11)
    assert np.abs(both.barycentric()[:60] - first.barycentric()).max() <= FAST_BRIDGE


def test_the_fast_bridge_refuses_four_dimensions_and_auto_does_not():
    with pytest.raises(ValueError, match="needs d <= 3, got d = 4"):
        transport.self_bridge(np.zeros((2, 4)), 1.0, method="fast")
    assert transport.self_bridge(np.zeros((2, 4)), 1.0).converged


@pytest.mark.parametrize("d", [1, 2, 3])
def test_tokens_are_taken_plane_by_plane_and_row_by_row(d: int) -> None:
    """On a grid coarser than the cells there are no ties: the last coordinate is the slowest."""
    steps = np.linspace(-3.0, 3.0, 7)
    grid = np.stack(np.meshgrid(*[steps] * d), axis=-1).reshape(-1, d)
    angles = np.random.default_rng(0).permutation(grid).T  # (d, n)
    assert (transforms._sorted(angles) == np.lexsort(angles)).all()
