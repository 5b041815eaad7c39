import numpy as np
import pytest
from tolerances import CONDITIONED

from attnflow.attention import SoftmaxAttention
from attnflow.gaussian import cone, cone_axes, growth

A = np.array([[0.0, 0.0, -1.5], [1.3, 0.0, 0.4], [-2.0, -1.3, 0.0]])
V = np.array([[-1.0, 1.0, 0.1], [0.5, 0.0, 0.6], [2.0, 0.0, 1.3]])


def test_the_exact_third_case_has_its_axis_and_its_exponent():
    """u = e1, w = e2, <Au, w> = 1.3: the exponent is 1.3 times the second variance."""
    shape = cone(A, V, np.diag([1e8, 0.5, 1e-9]))
    assert np.abs(shape.axis - [1, 0, 0]).max() <= CONDITIONED
    assert abs(shape.first) + abs(shape.second) <= CONDITIONED
    assert abs(shape.exponent - 0.65) <= 1e-6
    assert np.abs(np.abs(cone_axes(A, V)) @ [1, 0, 0]).max() >= 1 - CONDITIONED


@pytest.mark.parametrize("seed", range(30))
def test_axes_are_zeros_of_both_forms_and_none_is_missed(seed):
    rng = np.random.default_rng([seed, 3])
    A, V = rng.normal(size=(2, 3, 3))
    axes, second = cone_axes(A, V), A @ np.linalg.inv(V)
    size = np.linalg.norm(A) + np.linalg.norm(second)
    for u in axes:
        assert abs(np.linalg.norm(u) - 1) <= CONDITIONED
        assert abs(u @ A @ u) + abs(u @ second @ u) <= 1e-7 * size
    assert len(axes) == changes_of_sign(A, second)


def changes_of_sign(A, second):
    """Zeros of the second form along the cone of the first, counted on a fine grid."""
    values, vectors = np.linalg.eigh(A + A.T)
    if values[1] < 0:
        values, vectors = -values[::-1], vectors[:, ::-1]
    if not values[0] < 0 < values[1]:
        return 0
    angle = np.linspace(0, 2 * np.pi, 40_001)
    flat = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)], axis=1)
    points = flat / np.sqrt(np.abs(values)) @ vectors.T
    heights = np.einsum("ki,ij,kj->k", points, second, points)
    return int((np.diff(np.sign(heights)) != 0).sum())


def test_a_definite_form_has_no_axes():
    assert cone_axes(np.eye(3), V).shape == (0, 3)


def test_the_growth_of_the_exact_solution():
    layer = SoftmaxAttention(A, np.eye(3), V)
    found = growth(layer, np.diag([1.0, 0.5, 1e-12]), 30.0)
    assert abs(found.rate - 0.65) <= 1e-6
    assert 1e7 < np.linalg.eigvalsh(found.cov)[-1] < 1e9


def test_three_moments_before_a_blow_up_are_enough_for_a_rate() -> None:
    """1/(1 - 2t) at 0, 0.2 and 0.4; the next moment, 0.6, is beyond the blow-up."""
    found = growth(SoftmaxAttention([[1.0]], [[1.0]], [[1.0]]), 1.0, 400.0)
    assert abs(found.rate - np.log(5) / 0.8) <= 1e-6
    assert abs(found.time - 0.2) <= CONDITIONED
    assert abs(found.cov[0, 0] - 1 / 0.6) <= 1e-6


def test_bad_layers_are_refused():
    with pytest.raises(ValueError, match="V must be invertible, got a singular value 0"):
        cone(A, np.diag([1.0, 1.0, 0.0]), np.eye(3))
    with pytest.raises(ValueError, match=r"A must be 3 by 3, got shape \(2, 2\)"):
        cone_axes(np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=r"V must be 2 by 2, got shape \(3, 3\)"):
        cone(np.eye(2), V, np.eye(2))
    with pytest.raises(ValueError, match=r"cov must be 2 by 2, got shape \(2, 3\)"):
        cone(np.eye(2), np.eye(2), np.ones((2, 3)))
    with pytest.raises(ValueError, match="cov must be symmetric, got a difference 1"):
        cone(np.eye(2), np.eye(2), [[1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="until must lie well before the end of the flow"):
        growth(SoftmaxAttention([[1.0]], [[1.0]], [[1.0]]), 1.0, 1e6)
