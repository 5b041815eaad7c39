"""Softmax rows, their logarithm and the causal mask."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from tolerances import ROUNDING, SINGLE

from attnflow.softmax import exponentials, hide_future, log_sum, softmax_rows

SCORES = np.random.default_rng(0).normal(scale=9, size=(3, 4, 5))


def test_rows_and_logarithms_are_scipys():
    assert np.abs(softmax_rows(SCORES.copy()) - softmax(SCORES, axis=-1)).max() <= ROUNDING
    for axis in (-1, 0, 1):
        got = log_sum(SCORES, axis=axis)
        assert np.abs(got - logsumexp(SCORES, axis=axis)).max() <= ROUNDING * 10


def test_the_logarithm_leaves_its_terms_and_sees_past_what_exp_can_hold():
    terms = np.array([[-5000.0, 5000.0], [-5001.0, -np.inf]])
    before = terms.copy()
    want = [-5000 + np.log1p(np.exp(-1)), 5000.0]
    assert np.abs(log_sum(terms, axis=0) - want).max() <= ROUNDING * 5000
    assert (terms == before).all()


def test_rows_keep_their_precision_and_stacks_their_shape():
    single = softmax_rows(SCORES.astype(np.float32))
    assert single.dtype == np.float32
    assert single.shape == SCORES.shape
    assert np.abs(single.sum(axis=-1) - 1).max() <= SINGLE * 10


def test_the_future_has_no_weight():
    rows = softmax_rows(hide_future(SCORES[:, :4, :4].copy()))
    assert (rows[:, np.triu(np.ones((4, 4), dtype=bool), 1)] == 0).all()
    assert np.abs(rows.sum(axis=-1) - 1).max() <= ROUNDING
    assert np.abs(rows[:, 0, 0] - 1).max() == 0


@pytest.mark.parametrize("bad", [-np.inf, np.inf, np.nan])
def test_a_row_without_a_finite_largest_score_is_refused(bad):
    scores = np.full((1, 3), bad)
    for f in (softmax_rows, exponentials, log_sum):
        with pytest.raises(ValueError, match="every row must have a finite largest score, got"):
            f(scores.copy())
