"""Clouds and measures as hypothesis draws them."""

import numpy as np
from clouds import drawn_masses
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

COORDINATE = st.floats(-3, 3, allow_subnormal=False)


@st.composite
def clouds(draw, max_tokens=7, max_dimension=3):
    shape = draw(st.integers(1, max_tokens)), draw(st.integers(1, max_dimension))
    return draw(arrays(np.float64, shape, elements=COORDINATE))


@st.composite
def measures(draw, minimum=0):
    x = draw(clouds())
    return x, draw(drawn_masses(len(x), minimum))


def half_squared_distances(x):
    return ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1) / 2
