"""Newton's steps: how many products they count, when they are rough, and when they are many."""

import numpy as np
import pytest
from clouds import cloud
from scipy.special import logsumexp
from tolerances import DEFAULT_TOL, ROUNDING

from attnflow import transport
from attnflow.errors import NotConverged
from attnflow.kernels import squared_distances
from attnflow.transport import balance
from attnflow.transport.newton import Newton
from attnflow.transport.rough import Rough
from attnflow.validate import Array


def problem(n: int, m: int, size: float, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    s = rng.uniform(-size, size, size=(n, m))
    return s, rng.dirichlet(np.full(n, 3.0)), rng.dirichlet(np.full(m, 3.0))


def sweeps(s: Array, a: Array, b: Array) -> int:
    """How often plain alternating normalisation must do both."""
    plan, done = a[:, None] * np.exp(s) * b, 0
    plan *= b / plan.sum(axis=0)
    while np.abs(plan.sum(axis=1) - a).sum() > DEFAULT_TOL:
        plan *= (a / plan.sum(axis=1))[:, None]
        plan *= b / plan.sum(axis=0)
        done += 1
    return done


@pytest.mark.parametrize("seed", range(4))
def test_where_sweeps_are_quick_there_is_nothing_else(seed: int) -> None:
    """Scores within 0.7 of zero: errors fall to less than a quarter in each of them."""
    s, a, b = problem(6, 7, 0.7, seed)
    want = sweeps(s, a, b)
    assert want > 5
    assert transport.sinkhorn(s, a, b).iterations == want


def test_iterations_are_the_products_and_eliminations_that_were_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = dict.fromkeys(("_sums", "_roughly", "_factored"), 0)

    def count(owner: type[Newton], name: str) -> None:
        honest = getattr(owner, name)

        def counted(self: Newton, *args: Array) -> Array:
            made[name] += 1
            return honest(self, *args)

        monkeypatch.setattr(owner, name, counted)

    count(Newton, "_sums")
    count(balance._Plan, "_roughly")
    count(balance._Plan, "_factored")
    found = transport.sinkhorn(*problem(30, 30, 1e4, 0))
    assert min(made.values()) > 0
    assert found.iterations == sum(made.values())


def test_after_many_products_directions_are_made_of_rough_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Rough] = []
    used: list[int] = []

    class Recorded(Rough):
        def __init__(self, *args: Array) -> None:
            super().__init__(*args)
            made.append(self)

        def times(self, x: Array) -> Array:
            used.append(len(x))
            return super().times(x)

    monkeypatch.setattr(balance, "Rough", Recorded)
    x, y = cloud(200, 2), 0.5 + cloud(200, 2, seed=1)
    found = transport.sinkhorn(-squared_distances(x, y, 0.4))
    assert np.abs(found.plan().sum(axis=1) - 1 / 200).sum() <= DEFAULT_TOL + ROUNDING
    assert len(made) == 1  # its entries are all there, whatever the scales
    assert used


class Chain(Newton):
    """A plan in which a row meets its two neighbours alone: news travels two rows a product."""

    def __init__(self, n: int) -> None:
        self.u = self.v = np.ones(n)
        even = np.full(n, 1 / n)
        super().__init__(even, self._times(even * n))
        self._measured(self.b + 0.1 / n * np.where(np.arange(n) < n // 2, 1.0, -1.0))
        self.a, self.rows = self.rows, self.b

    def _times(self, x: Array) -> Array:
        near = np.pad(x, 1, mode="edge")
        return (near[:-2] + 2 * near[1:-1] + near[2:]) / (4 * len(x))

    _transposed = _times

    def _own(self) -> Array:
        return np.zeros(len(self.a))

    def _roughen(self) -> None:
        self.rough = self.many = True

    def _roughly(self, p: Array) -> Array:
        return self._times(self._transposed(p) / self.b)


def test_a_sparse_plan_whose_rows_meet_by_long_chains_is_worth_many_products() -> None:
    """From the ends of 1200 rows to the middle it is 300 products."""
    plan = Chain(1200)
    change, solved = plan._conjugate(DEFAULT_TOL, 5000)
    assert solved
    assert plan.conjugates >= 300
    left = plan.a - plan.rows - (plan.rows * change - plan._roughly(change))
    assert np.abs(left).sum() <= 0.1 * np.abs(plan.a - plan.rows).sum() + ROUNDING


def test_rows_that_underflow_begin_with_a_sweep_in_logarithms() -> None:
    s, a, b = problem(5, 6, 3.0, 0)
    s[2] -= 700.0  # nothing of it is left beside the others
    plan = balance._Plan(s, 1.0, a, b, np.zeros(5), np.empty_like(s))
    g = -logsumexp(s + np.log(a)[:, None], axis=0)
    f = -logsumexp(s + g + np.log(b), axis=1)
    assert np.abs(plan.f - f).max() <= ROUNDING * 700
    again = -logsumexp(s + (f + np.log(a))[:, None], axis=0)
    assert np.abs(plan.g - again).max() <= ROUNDING * 700


def test_the_warning_is_about_the_line_that_asked() -> None:
    with pytest.warns(NotConverged) as seen:
        transport.sinkhorn(*problem(6, 6, 4.0, 0), max_iter=1)
    assert [warning.filename for warning in seen] == [__file__]


def test_entries_too_faint_for_single_precision_are_none() -> None:
    """Numbers below 1.2e-38 are there, but slow."""
    kernel = np.full((3, 3), 0.25)
    kernel[0, 1], kernel[1, 0] = 1e-39, 1e-44
    rough = Rough(kernel, np.ones(3), np.ones(3), kernel.sum(axis=0))
    assert not rough.sparse
    assert rough.times(np.array([0.0, 1.0, 0.0])).tolist() == [0.0, 0.25, 0.25]
    assert rough.transposed(np.array([0.0, 1.0, 0.0])).tolist() == [0.0, 0.25, 0.25]
