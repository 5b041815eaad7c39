"""A warning names the line of whoever called, not a line of this package."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attnflow import line
from attnflow.attention import SoftmaxAttention
from attnflow.densities import Gaussian
from attnflow.errors import Frozen, GridTooSmall, NotConverged
from attnflow.lipschitz import local_constant
from attnflow.schemes import bridge_step
from attnflow.transport import pair_bridge, self_bridge, self_bridges, sinkhorn

X = np.random.default_rng(0).standard_normal((12, 2))
LAYER = SoftmaxAttention(np.eye(2), np.eye(2), np.eye(2))
BELL = Gaussian(0.0, 1.0)

CASES: dict[str, tuple[type[Warning], Callable[[], Any]]] = {
    "sinkhorn": (NotConverged, lambda: sinkhorn(9 * X @ X.T, max_iter=1)),
    "self_bridge": (NotConverged, lambda: self_bridge(X, 0.05, max_iter=1)),
    "self_bridges": (NotConverged, lambda: self_bridges(X[None], 0.05, max_iter=1)),
    "pair_bridge": (NotConverged, lambda: pair_bridge(X, X[::-1] + 1.0, 0.05, max_iter=1)),
    "local_constant": (NotConverged, lambda: local_constant(LAYER, X, 1e-9, max_iter=1)),
    "bridge_step": (Frozen, lambda: bridge_step(X, 1e-6)),
    "line_grid": (GridTooSmall, lambda: line.line_grid(BELL, 0.1, resolution=0.5)),
    "line_grid, narrow": (GridTooSmall, lambda: line.line_grid(BELL, 0.1, half_width=1.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_warning_names_the_line_of_the_call(name: str) -> None:
    kind, call = CASES[name]
    with pytest.warns(kind) as seen:
        call()
    assert {warning.filename for warning in seen} == {__file__}
