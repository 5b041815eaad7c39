"""Tokens and their masses, drawn by a seed or by Hypothesis."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st


def cloud(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def masses(n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(n, 2.0))


@st.composite
def drawn_masses(draw, n, minimum=0):
    """Whole numbers in [minimum, 5] over their sum: ties, and zeros where the minimum is 0."""
    w = np.array(draw(st.lists(st.integers(minimum, 5), min_size=n, max_size=n)), dtype=float)
    assume(w.sum() > 0)
    return w / w.sum()
