r"""How likely two tokens are to have met by time t, over t and beta: a phase diagram.

It is Figure 3 of :cite:t:`geshkovski2025`. For n tokens drawn uniformly on the sphere of R^d, the probability that
:math:`\langle x_1(t), x_2(t)\rangle \ge 1-\delta` is estimated by the share of all pairs,
averaged over draws (pairs are alike by symmetry). The same draws serve every beta.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnflow import validate
from attnflow.errors import MissingPackage
from attnflow.sphere.tokens import uniform, unit
from attnflow.validate import Array

#: The error of a step, in units of delta: what is compared is an inner product with 1 - delta.
STEP_ERROR = 0.01
#: Draws that one task takes together.
BLOCK = 16

#: Draws of n tokens in d dimensions have n^2 or n d entries.
MOST_TOKENS = 100_000


class PhaseDiagram(NamedTuple):
    """Probabilities over a grid, with their standard errors over the draws.

    >>> found = phase_diagram(4, 3, betas=[0.0, 2.0], times=[0.0, 1.0, 2.0], realisations=2)
    >>> found.probability.shape, found.realisations
    ((2, 3), 2)
    """

    betas: Array  #: (b,)
    times: Array  #: (m,)
    probability: Array  #: (b, m)
    stderr: Array  #: (b, m)
    n: int
    d: int
    delta: float
    realisations: int
    iterations: int  #: steps of the integrator, over all draws and betas

    @property
    def converged(self) -> bool:
        """True: a draw that cannot be followed to the last time raises `FlowStopped` instead."""
        return True


class _Block(NamedTuple):
    """Some draws over all of the grid, as something to send away: the answer depends on it alone."""

    size: int
    seed: np.random.SeedSequence
    n: int
    d: int
    betas: Array
    times: Array
    delta: float
    normalised: bool


def phase_diagram(
    n: int, d: int, betas: ArrayLike, times: ArrayLike, delta: float = 1e-3,
    realisations: int = 64, seed: int = 0, *, normalised: bool = True,
    threads: int | None = None, executor: Executor | None = None,
    done: Callable[[int], object] = lambda draws: None,
) -> PhaseDiagram:  # fmt: skip
    r"""The share of pairs that have met at every beta and time, from uniform tokens at time 0.

    .. math:: p(t, \beta) = \frac{2}{n(n-1)} \sum_{i<j}
        \mathbb P(\langle x_i(t), x_j(t)\rangle \ge 1-\delta)

    by SA, or by USA if not `normalised`: Figure 3 of :cite:t:`geshkovski2025`. In d >= n dimensions
    inner products are drawn and followed, in fewer the tokens. Draws are spread over `threads` (all cores unless given), or in blocks over an `executor`:
    processes, or a cluster. The answer does not depend on either. `done` is called with the number
    of trajectories finished.

    >>> diagram = phase_diagram(8, 3, betas=[1.0], times=[0.0, 20.0], realisations=4)
    >>> diagram.probability
    array([[0., 1.]])
    """
    n, d = validate.count(n, "n", 2, MOST_TOKENS), validate.count(d, "d", 2, MOST_TOKENS)
    b = validate.array(betas, "betas", 1)
    t = validate.times(times, start=0.0, longest=validate.LONGEST)
    if not len(b):
        raise ValueError("betas must not be empty, got none")
    for beta in b:
        validate.beta(beta, "betas")
    delta = validate.between_zero_and_one(delta, "delta")
    realisations = validate.count(realisations, "realisations", 2, validate.MOST_STORED)
    seed = validate.count(seed, "seed", 0)
    if threads is not None and executor is not None:
        raise ValueError("threads and executor exclude each other, got both")
    workers = cores() if threads is None else validate.count(threads, "threads")
    starts = range(0, realisations, BLOCK)
    seeds = np.random.SeedSequence(seed).spawn(len(starts))
    blocks = [
        _Block(min(BLOCK, realisations - start), child, n, d, b, t, delta, normalised)
        for start, child in zip(starts, seeds, strict=True)
    ]
    if executor is not None:
        parts = _spread(blocks, executor, done)
    else:
        _compiled()
        with ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(partial(_shares, done=done), blocks))
    mean = np.sum([p[0] for p in parts], axis=0) / realisations
    second = np.sum([p[1] for p in parts], axis=0) / realisations
    spread = np.sqrt(np.maximum(second - mean**2, 0.0) / (realisations - 1))
    iterations = sum(p[2] for p in parts)
    return PhaseDiagram(b, t, mean, spread, n, d, delta, realisations, iterations)


def _spread(
    blocks: list[_Block], executor: Executor, done: Callable[[int], object]
) -> list[tuple[Array, Array, int]]:
    """The answers in the order of the blocks, so that sums are the same whoever is first."""
    futures = {executor.submit(_shares, block): block for block in blocks}
    try:
        for future in as_completed(futures):
            future.result()
            done(futures[future].size * len(futures[future].betas))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return [future.result() for future in futures]


def _shares(
    block: _Block, done: Callable[[int], object] = lambda draws: None
) -> tuple[Array, Array, int]:
    """Sums over the draws of a block of shares and of their squares, (b, m) each, and steps."""
    (by_grams, by_tokens), rng = _compiled(), np.random.default_rng(block.seed)
    if block.d >= block.n:
        clustered, states = by_grams, grams(block.size, block.n, block.d, rng)
    else:
        starts = [uniform(block.n, block.d, rng) for _ in range(block.size)]
        clustered, states = by_tokens, np.stack(starts)
    shape = len(block.betas), len(block.times)
    total, squares, steps = np.zeros(shape), np.zeros(shape), 0
    level, error = 1 - block.delta, STEP_ERROR * block.delta
    for row, beta in enumerate(block.betas):
        shares, taken = clustered(states, float(beta), block.times, level, error, block.normalised)
        total[row], squares[row] = shares.sum(axis=0), (shares**2).sum(axis=0)
        steps += taken
        done(block.size)
    return total, squares, steps


def grams(draws: int, n: int, d: int, rng: np.random.Generator) -> Array:
    r"""Gram matrices (draws, n, n) of n uniform tokens in d >= n dimensions, without the tokens.

    Turn the space until token i of n normal ones lies in the span of the first i axes: its coordinates
    before the last are normal still, the last has the law of :math:`\chi_{d-i+1}`, and all are independent.
    This is the factor of :cite:t:`bartlett1933`, n(n+1)/2 numbers in place of nd; inner products do not feel
    the turn, and divided by the norms they are those of uniform tokens.

    >>> g = grams(1, 3, 10**6, np.random.default_rng(0))[0]  # far up, tokens are orthogonal
    >>> bool(np.abs(g - np.eye(3)).max() < 5e-3)
    True
    """
    if d < n:
        raise ValueError(f"d must be at least n = {n}, got {d}")
    factor = np.zeros((draws, n, n))
    below, diagonal = np.tril_indices(n, -1), np.arange(n)
    factor[:, *below] = rng.standard_normal((draws, len(below[0])))
    factor[:, diagonal, diagonal] = np.sqrt(rng.chisquare(d - diagonal, (draws, n)))
    x = unit(factor)
    return x @ x.transpose(0, 2, 1)


def cores() -> int:
    """The cores this process may use.

    >>> cores() >= 1
    True
    """
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _compiled() -> tuple[Callable[..., tuple[Array, int]], Callable[..., tuple[Array, int]]]:
    """The compiled loop for inner products and that for tokens, loaded here as they need numba."""
    try:
        from attnflow.sphere.compiled import clustered_grams, clustered_tokens
    except ImportError as error:
        raise MissingPackage.named("numba", "a phase diagram", "fast") from error
    return clustered_grams, clustered_tokens
