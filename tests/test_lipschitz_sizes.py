"""Tokens, matrices, radii and changes at the ends of the range of numbers."""

import numpy as np
import pytest
from tolerances import ROUNDING

from attnflow import lipschitz
from attnflow.attention import SoftmaxAttention
from attnflow.trained.certificate import certificate, softmax_bound
from attnflow.trained.sinks import split, unseen_bound

I = np.eye(2)  # noqa: E741
LAYER = SoftmaxAttention(-2 * I, I, I)
X = np.array([[0.5, 0.0], [0.0, 1.0], [-1.0, -0.5], [0.25, 0.25]])
E = np.array([[1.0, 0.5], [0.0, -1.0], [2.0, 0.0], [0.3, 0.7]])
BOUNDS = [lipschitz.two_leaders, lipschitz.two_leaders_bound, lipschitz.places]


@pytest.mark.parametrize("product", [lipschitz.jvp, lipschitz.vjp])
@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e150, 1e307])
def test_derivatives_are_linear_in_changes_of_any_size(product, size):
    found, want = product(LAYER, X, size * E) / size, product(LAYER, X, E)
    assert np.abs(found - want).max() <= ROUNDING


@pytest.mark.parametrize("size", [1e-160, 1e160])
def test_the_bend_is_linear_in_both_its_arguments(size):
    at = lipschitz.Linearised(LAYER, X)
    want = at.bend(E, X)
    assert np.abs(at.bend(size * E, X) / size - want).max() <= ROUNDING
    assert np.abs(at.bend(E, size * X) / size - want).max() <= ROUNDING
    assert np.abs(at.bend(size * E, X / size) - want).max() <= ROUNDING


def test_derivatives_beyond_all_numbers_are_refused():
    with pytest.raises(ValueError, match=r"^derivatives must be finite, got inf"):
        lipschitz.jvp(SoftmaxAttention(0 * I, I, 4 * I), X, np.full((4, 2), 1e308))


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: lipschitz.local_constant(LAYER, x),
        lambda x: lipschitz.jvp(LAYER, x, E),
        lambda x: certificate(LAYER, x),
        lambda x: softmax_bound(LAYER, x),
        lambda x: unseen_bound(LAYER, x),
        lambda x: split(LAYER, x),
    ],
    ids=["local_constant", "jvp", "certificate", "softmax_bound", "unseen_bound", "split"],
)
@pytest.mark.parametrize("row", range(4))
@pytest.mark.parametrize("size", [1e150, 1e155, 1e200, 1e308])
def test_tokens_whose_derivatives_have_no_squares_are_refused(compute, row, size):
    x = X.copy()
    x[row, 0] = size
    with pytest.raises(ValueError, match=r"these tokens or matrices are too large$"):
        compute(x)


@pytest.mark.parametrize("size", [1e2, 1e4, 1e5, 1e6, 1e8, 1e15, 1e30, 1e36])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_constants_of_tokens_in_doubt_grow_with_the_square_of_their_size(size, tol):
    """Token 2 attends to tokens 0 and 1 alike, as long as sums of their entries are exact."""
    unit = 2.0 ** np.floor(np.log2(size))
    found = lipschitz.local_constant(LAYER, unit * X, tol)
    assert found.converged
    assert found.value / unit**2 == pytest.approx(np.sqrt(75) / 8, rel=1e-3)


def test_single_precision_is_refused_where_it_does_not_reach():
    for size in (1e7, 1e30, 1e40):
        with pytest.raises(ValueError, match=r"^derivatives must be below 4e\+08, so that"):
            lipschitz.local_constant(LAYER, size * X, 1e-3, dtype=np.float32)


@pytest.mark.parametrize("size", [1e150, 1e300, 1e308])
def test_a_search_starts_within_the_ball_wherever_its_tokens_are(size):
    x = X.copy()
    x[2] = [-size, -size / 2]
    near = X.copy()
    near[2] = np.array([-2.0, -1.0]) / np.sqrt(5)
    far, want = (lipschitz.worse(LAYER, y, 1.0, max_iter=5) for y in (x, near))
    assert far.history == pytest.approx(want.history, rel=1e-6)


@pytest.mark.parametrize("R", [1e-200, 1e-76, 1e76, 1e308])
def test_radii_whose_fourth_power_is_no_number_are_refused(R):
    with pytest.raises(ValueError, match=r"^R must lie in \[1e-75, 1e\+75\], got "):
        lipschitz.worse(LAYER, X, R)
    with pytest.raises(ValueError, match=r"^R must lie in \[1e-75, 1e\+75\], got "):
        lipschitz.sharp_upper_bound(I, I, R, 4)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.__name__)
def test_values_without_rows_are_refused(bound):
    with pytest.raises(ValueError, match=r"^A and V must have entries, got shapes"):
        bound(I, np.zeros((0, 2)), 1.0, 5)


def test_score_matrices_without_entries_are_refused():
    with pytest.raises(ValueError, match=r"^A must be square, got shape"):
        lipschitz.sharp_constant(np.zeros((0, 0)))


@pytest.mark.parametrize("size", [1e99, 1e101, 1e155, 1e300])
def test_the_sharp_bound_grows_with_the_scores_at_every_size(size):
    """For large scores it is sqrt(n/2) c(A) R^2 and more, all of first degree in A."""
    found = lipschitz.sharp_upper_bound(size * I, I, 1.0, 100) / size
    want = lipschitz.sharp_upper_bound(1e50 * I, I, 1.0, 100) / 1e50
    assert found == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("bound", [lipschitz.sharp_upper_bound, lipschitz.tight_upper_bound])
def test_bounds_are_inf_beyond_all_numbers_and_zero_without_values(bound):
    assert bound(1e308 * I, I, 10.0, 100) == np.inf
    assert bound(1e308 * I, 0 * I, 10.0, 100) == 0.0


@pytest.mark.parametrize("size", [1e150, 1e308])
def test_a_leader_that_all_attend_to_is_answered_by_all(size):
    found = lipschitz.exponent_lower_bound(np.diag([-size, -2.0]), 10.0, 8)
    assert found == pytest.approx(np.sqrt(7))


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.__name__)
@pytest.mark.parametrize("A", [np.diag([1e308, -2.0]), np.diag([-2.0, -1e155]), -1e148 * I])
def test_scores_whose_squares_are_no_numbers_are_refused(bound, A):
    with pytest.raises(ValueError, match=r"^\|A\| R\^2 must be at most 1e\+150, got "):
        bound(A, I, 100.0, 5)


@pytest.mark.parametrize(
    "bound", [*BOUNDS, lipschitz.sharp_upper_bound, lipschitz.exponent_upper_bound]
)
def test_matrices_whose_norm_is_no_number_are_refused(bound):
    with pytest.raises(ValueError, match=r"^norms of A must be finite numbers"):
        bound(np.full((2, 2), 1e308), I, 1.0, 5)
    with pytest.raises(ValueError, match=r"^norms of V must be finite numbers"):
        bound(-I, np.full((2, 2), 1e308), 1.0, 5)
