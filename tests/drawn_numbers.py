"""Numbers that claims are tried with."""

import math

from hypothesis import strategies as st

NAN, INF = math.nan, math.inf


finite = st.floats(-1e6, 1e6, allow_nan=False)
