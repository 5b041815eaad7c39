import numpy as np
import pytest
from tolerances import ROUNDING, SINGLE

from attnflow.rotation import Turn, rotate


@pytest.mark.parametrize("shape", [(5, 4), (3, 5, 4), (2, 3, 5, 8)])
def test_pairs_are_complex_numbers_that_are_multiplied(shape):
    rng = np.random.default_rng(0)
    y, angles = rng.normal(size=shape), rng.uniform(-4, 4, size=(5, shape[-1] // 2))
    half = shape[-1] // 2
    turned = (y[..., :half] + 1j * y[..., half:]) * np.exp(1j * angles)
    found = rotate(y, Turn.by(angles))
    assert np.abs(found[..., :half] - turned.real).max() <= 10 * ROUNDING
    assert np.abs(found[..., half:] - turned.imag).max() <= 10 * ROUNDING


def test_turning_back_is_the_inverse_and_the_transpose():
    rng = np.random.default_rng(1)
    y, z = rng.normal(size=(2, 6, 4))
    turn = Turn.by(rng.uniform(-4, 4, size=(6, 2)))
    assert np.abs(rotate(rotate(y, turn), turn.back) - y).max() <= 10 * ROUNDING
    assert abs(np.vdot(z, rotate(y, turn)) - np.vdot(rotate(z, turn.back), y)) <= 100 * ROUNDING


def test_angles_are_rounded_after_their_cosine():
    """At angles of 1e6 single precision would leave no digit of the cosine."""
    angles = np.array([[1e6 + 0.3]])
    turn = Turn.by(angles, np.float32)
    assert turn.cos.dtype == turn.sin.dtype == np.float32
    assert abs(turn.cos[0, 0] - np.cos(1e6 + 0.3)) <= SINGLE
    assert rotate(np.ones((1, 2), np.float32), turn).dtype == np.float32
