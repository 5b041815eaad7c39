"""The dominant left eigenspace of V: closed forms, rotations, near misses."""

import numpy as np
import pytest
from hulls import SEEDS, rotation
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tolerances import CONDITIONED, ROUNDING

from attnflow.geometry import dominant


def projector(basis):
    return basis.T @ basis


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.integers(1, 6))
def test_dominant_spans_the_left_eigenvectors_of_the_largest_real_part(seed, d):
    V = np.random.default_rng(seed).normal(size=(d, d))
    values, vectors = np.linalg.eig(V.T)
    top = values.real >= values.real.max() - 1e-8
    span = np.c_[vectors[:, top].real, vectors[:, top].imag]  # a complex pair spans a plane
    others = np.abs(values[top][:, None] - values[~top])
    assume(np.linalg.cond(vectors) < 100)
    assume(others.min(initial=1.0) > 0.05)
    u = np.linalg.svd(span)[0][:, : top.sum()]
    basis = dominant(V)
    assert basis.shape == (top.sum(), d)
    assert np.abs(basis @ basis.T - np.eye(top.sum())).max() <= ROUNDING
    assert np.abs(projector(basis) - u @ u.T).max() <= 100 * CONDITIONED


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.integers(1, 5), st.integers(0, 3))
def test_dominant_of_a_paranormal_matrix_sees_f_along_g(seed, f, g):
    """B diag(2 I, smaller) B^{-1}: the rows of B^{-1} that belong to 2, which vanish on G."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(f + g, f + g))
    assume(np.linalg.cond(B) < 100)
    smaller = rng.uniform(-1.5, 1.5, size=g)
    inverse = np.linalg.inv(B)
    basis = dominant(B @ np.diag(np.append(np.full(f, 2.0), smaller)) @ inverse)
    want = np.linalg.qr(inverse[:f].T)[0]
    assert basis.shape == (f, f + g)
    assert np.abs(projector(basis) - want @ want.T).max() <= 100 * CONDITIONED
    assert np.abs(basis @ B[:, f:]).max(initial=0.0) <= 100 * CONDITIONED


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.integers(1, 4), st.floats(1e-3, 1e3))
def test_dominant_turns_with_v_and_has_no_scale(seed, d, factor):
    rng = np.random.default_rng(seed)
    V, turn = rng.normal(size=(d, d)), rotation(d, rng)
    values, vectors = np.linalg.eig(V)
    gaps = np.abs(values[:, None] - values) + np.eye(d)
    assume(np.linalg.cond(vectors) < 100 and gaps.min() > 0.05)
    basis = dominant(V)
    turned = dominant(factor * turn @ V @ turn.T)
    assert np.abs(projector(turned) - turn @ projector(basis) @ turn.T).max() <= 100 * CONDITIONED


@pytest.mark.parametrize(
    ("V", "want"),
    [
        ([[2.0, 1.0], [0.0, 0.5]], [[3.0, 2.0]]),  # (3, 2) V = 2 (3, 2); its right one is (1, 0)
        ([[-1.0, 0.0], [5.0, -3.0]], [[1.0, 0.0]]),
        ([[-3.0, 0.0], [0.0, -1.0]], [[0.0, 1.0]]),  # the largest real part, not modulus
        ([[0.0, -1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]),
        ([[0.5, 0, 0], [0, 1.0, -9.0], [0, 9.0, 1.0]], [[0, 1.0, 0], [0, 0, 1.0]]),
        ([[7.0]], [[1.0]]),
        ([[0.0]], [[1.0]]),
        ([[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]),
    ],
)
def test_dominant_in_closed_form(V, want):
    unit = np.linalg.qr(np.transpose(want))[0]
    assert np.abs(projector(dominant(V)) - unit @ unit.T).max() <= CONDITIONED


@pytest.mark.parametrize(
    ("V", "message"),
    [
        (np.ones((2, 3)), r"V must be square, got shape \(2, 3\)"),
        ([1.0, 2.0], r"V must have 2 axes, got shape \(2,\)"),
        ([[np.nan]], "V must be finite, got nan"),
        ([[1j]], "V must be an array of real numbers"),
    ],
)
def test_dominant_refuses_what_has_no_spectrum(V, message):
    with pytest.raises(ValueError, match=message):
        dominant(V)


def test_a_defective_matrix_has_a_dominant_direction():
    J = np.eye(6) + np.diag(np.ones(5), 1)
    turn = rotation(6, np.random.default_rng(1))
    assert len(dominant(turn @ J @ turn.T)) >= 1
