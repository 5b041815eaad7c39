import itertools
import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import ks_2samp
from tolerances import ROOT_OF_VARIANCE, ROUNDING, STANDARD_ERRORS, STEPS_OF_DELTA

from attnflow import errors, sphere
from attnflow.sphere import phase


def draws_of(n, d, realisations, seed):
    """The starts of a phase diagram: blocks of draws, each with a generator of its own."""
    block = phase.BLOCK
    sizes = [min(block, realisations - start) for start in range(0, realisations, block)]
    out = []
    for size, child in zip(sizes, np.random.SeedSequence(seed).spawn(len(sizes)), strict=True):
        rng = np.random.default_rng(child)
        if d < n:
            starts = rng.normal(size=(size, n, d))
        else:  # Bartlett's factors: tokens of R^n with the right inner products
            below, lengths = rng.normal(size=(size, n * (n - 1) // 2)), chi(rng, size, n, d)
            starts = np.zeros((size, n, n))
            for i in range(n):
                starts[:, i, :i] = below[:, i * (i - 1) // 2 : i * (i + 1) // 2]
                starts[:, i, i] = lengths[:, i]
        out += [x / np.linalg.norm(x, axis=1, keepdims=True) for x in starts]
    return out


def chi(rng, size, n, d):
    return np.sqrt(rng.chisquare(d - np.arange(n), (size, n)))


def followed(x0, beta, times, normalised):
    """Inner products of the pairs at `times`, by following the tokens; shape (times, pairs)."""

    def field(t, y):
        x = y.reshape(x0.shape)
        a = np.exp(beta * (x @ x.T))
        v = a @ x / (a.sum(axis=1, keepdims=True) if normalised else len(x))
        return (v - (v * x).sum(axis=1, keepdims=True) * x).ravel()

    with np.errstate(over="ignore", invalid="ignore"):  # trial steps
        found = solve_ivp(
            field, (0, times[-1]), x0.ravel(), t_eval=times, method="DOP853", rtol=1e-11, atol=1e-12
        )
    states = found.y.T.reshape(len(times), *x0.shape)
    upper = np.triu_indices(len(x0), 1)
    return np.stack([(x @ x.T)[upper] for x in states])


def brute_force(n, d, betas, times, delta, realisations, seed=0, normalised=True):
    """Shares per draw (betas, draws, times), counting pairs above levels a little over and under."""
    low = np.empty((len(betas), realisations, len(times)))
    high = np.empty_like(low)
    for (row, beta), (k, x) in itertools.product(
        enumerate(betas), enumerate(draws_of(n, d, realisations, seed))
    ):
        g = followed(x, beta, times, normalised)
        low[row, k] = (g >= 1 - delta + STEPS_OF_DELTA * delta).mean(axis=1)
        high[row, k] = (g >= 1 - delta - STEPS_OF_DELTA * delta).mean(axis=1)
    return low, high


# values


@pytest.mark.parametrize("normalised", [True, False], ids=["SA", "USA"])
@pytest.mark.parametrize(("n", "d"), [(2, 2), (2, 3), (4, 3), (5, 2), (5, 5), (6, 4), (7, 9)])
def test_a_phase_diagram_is_the_mean_of_tokens_followed_one_by_one(n, d, normalised):
    """In d >= n dimensions inner products are followed, in fewer the tokens."""
    betas, delta, draws = [0.0, 2.0], 0.01, 6
    times = [0.0, 0.5, 2.0, 4.0, 8.0]
    diagram = phase.phase_diagram(n, d, betas, times, delta, draws, seed=3, normalised=normalised)
    low, high = brute_force(n, d, betas, times, delta, draws, 3, normalised)
    assert (diagram.probability >= low.mean(axis=1) - ROUNDING).all()
    assert (diagram.probability <= high.mean(axis=1) + ROUNDING).all()
    assert (low == high).mean() >= 0.9
    sure = (low == high).all(axis=1)
    error = low.std(axis=1, ddof=1) / math.sqrt(draws)
    assert np.abs(diagram.stderr - error)[sure].max() <= ROOT_OF_VARIANCE


def test_every_block_has_seeds_of_its_own():
    """70 draws are four blocks of 16 and one of 6."""
    times, delta = [0.0, 3.0, 5.0], 0.01
    diagram = phase.phase_diagram(3, 2, [1.0], times, delta, 70, seed=11)
    low, high = brute_force(3, 2, [1.0], times, delta, 70, 11)
    assert (diagram.probability >= low.mean(axis=1) - ROUNDING).all()
    assert (diagram.probability <= high.mean(axis=1) + ROUNDING).all()
    assert np.abs(high - low).mean() <= 0.01


def test_fast_flows_without_denominator_are_followed():
    """At beta = 6 tokens move 400 times as fast as with it."""
    times, delta = [0.0, 0.005, 0.02, 0.1, 0.5], 0.01
    for d in (3, 6):
        diagram = phase.phase_diagram(4, d, [6.0], times, delta, 6, normalised=False)
        low, high = brute_force(4, d, [6.0], times, delta, 6, 0, False)
        assert (diagram.probability >= low.mean(axis=1) - ROUNDING).all()
        assert (diagram.probability <= high.mean(axis=1) + ROUNDING).all()


def test_a_phase_diagram_says_what_it_is_of():
    diagram = phase.phase_diagram(4, 3, [0.0, 1, 2], [0, 1], 0.05, realisations=5, seed=2)
    assert diagram.betas.tolist() == [0.0, 1.0, 2.0]
    assert diagram.times.tolist() == [0.0, 1.0]
    assert diagram.probability.shape == diagram.stderr.shape == (3, 2)
    assert (diagram.n, diagram.d, diagram.delta, diagram.realisations) == (4, 3, 0.05, 5)
    assert diagram.iterations >= 3 * 5
    assert diagram.probability.dtype == diagram.stderr.dtype == np.float64


@pytest.mark.parametrize("d", [3, 6])
def test_iterations_are_the_steps_of_all_blocks_and_betas(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def followed(states, beta, times, *_):
        return np.zeros((len(states), len(times))), 100 * len(states) + int(beta)

    monkeypatch.setattr(phase, "_compiled", lambda: (followed, followed))
    diagram = phase.phase_diagram(4, d, [0.0, 1.0, 2.0], [0.0, 1.0], realisations=phase.BLOCK + 5)
    assert diagram.iterations == 3 * 100 * (phase.BLOCK + 5) + 2 * (0 + 1 + 2)


@pytest.mark.parametrize(("n", "d"), [(8, 2), (8, 16)])
def test_probabilities_lie_between_zero_and_one(n, d):
    diagram = phase.phase_diagram(n, d, [0.0, 3.0, 9.0, 40.0], np.linspace(0, 20, 21))
    for values in (diagram.probability, diagram.stderr):
        assert np.isfinite(values).all()
        assert values.min() >= 0
    assert diagram.probability.max() <= 1
    assert diagram.stderr.max() <= 0.5 / math.sqrt(63) + ROUNDING
    assert (diagram.probability[0, -1], diagram.stderr[0, -1]) == (1, 0)


@pytest.mark.parametrize(
    ("d", "delta", "want"),
    [(3, 0.5, 0.25), (3, 0.1, 0.05), (2, 0.5, 1 / 3), (2, 1 - 0.5**0.5, 0.25)],
)
def test_at_time_zero_the_probability_is_that_of_a_cap(d, delta, want):
    """On the sphere <x, y> is uniform (Archimedes), on the circle the angle is."""
    diagram = phase.phase_diagram(5, d, [1.0], [0.0, 0.01], delta, realisations=2000, seed=1)
    assert diagram.stderr[0, 0] <= 0.01
    assert abs(diagram.probability[0, 0] - want) <= STANDARD_ERRORS * diagram.stderr[0, 0]


@pytest.mark.parametrize("beta", [0.0, 1.0, 3.0])
def test_in_many_dimensions_pairs_meet_at_the_hitting_time(beta):
    """Tokens start almost orthogonal: inner products are of order d^{-1/2} = 0.008."""
    t = sphere.hitting_time(beta, 4, 1e-3)
    diagram = phase.phase_diagram(4, 2**14, [beta], [0.0, 0.9 * t, 1.1 * t], realisations=8)
    assert diagram.probability.tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize("d", [2, 3, 5])
def test_standard_errors_shrink_like_the_root_of_the_draws(d):
    few, many = (
        phase.phase_diagram(4, d, [1.0], [0.0, 3.0], 0.1, realisations=r) for r in (100, 1600)
    )
    assert abs(few.stderr[0, 1] / many.stderr[0, 1] - 4) <= 1
    gap = abs(few.probability[0, 1] - many.probability[0, 1])
    assert gap <= STANDARD_ERRORS * few.stderr[0, 1]


@pytest.mark.parametrize(("n", "d"), [(5, 2), (5, 4), (3, 7), (2, 100)])
def test_tokens_are_followed_in_few_dimensions_and_inner_products_in_many(n, d, monkeypatch):
    """In few, errors of inner products would add dimensions; in many, they cost less."""
    seen = []

    def recorder(as_gram):
        def record(states, beta, times, *rest):
            seen.append((states, as_gram))
            return np.zeros((len(states), len(times))), 1

        return record

    monkeypatch.setattr("attnflow.sphere.compiled.clustered_grams", recorder(True))
    monkeypatch.setattr("attnflow.sphere.compiled.clustered_tokens", recorder(False))
    phase.phase_diagram(n, d, [1.0], [0.0, 1.0], realisations=3)
    ((states, as_gram),) = seen
    x = np.stack(draws_of(n, d, 3, 0))
    want = x if d < n else x @ x.transpose(0, 2, 1)
    assert as_gram == (d > n)
    assert np.abs(states - want).max() <= ROUNDING


# the law of the first inner products


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 3), (4, 9), (5, 40)])
def test_gram_matrices_have_the_law_of_uniform_tokens(n, d):
    """Against tokens themselves, by Kolmogorov's and Smirnov's test: single products, sums, determinants."""
    rng, draws = np.random.default_rng(5), 4000
    x = rng.normal(size=(draws, n, d))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    ours, theirs = phase.grams(draws, n, d, rng), x @ x.transpose(0, 2, 1)
    assert np.abs(ours.diagonal(axis1=1, axis2=2) - 1).max() <= ROUNDING
    assert np.abs(ours - ours.transpose(0, 2, 1)).max() == 0
    for number in (
        lambda g: g[:, 1, 0],
        lambda g: g[:, n - 1, n - 2],
        lambda g: (g @ g @ g).trace(axis1=1, axis2=2),
        np.linalg.det,
    ):
        assert ks_2samp(number(ours), number(theirs)).pvalue >= 1e-4


def test_a_wrong_degree_of_freedom_would_be_noticed():
    """The control: one dimension fewer."""
    rng = np.random.default_rng(5)
    ours, other = phase.grams(4000, 4, 9, rng), phase.grams(4000, 4, 8, rng)
    assert ks_2samp(np.linalg.det(ours), np.linalg.det(other)).pvalue <= 1e-4


def test_gram_matrices_need_as_many_dimensions_as_tokens():
    with pytest.raises(ValueError, match=r"d must be at least n = 5, got 4"):
        phase.grams(1, 5, 4, np.random.default_rng(0))


# what may not matter


@pytest.mark.parametrize("d", [3, 6])
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_the_number_of_threads_does_not_matter(d, threads):
    given = (5, d, [0.0, 2.0], [0.0, 2.0, 5.0], 0.01, 150)
    one, several = (phase.phase_diagram(*given, threads=k) for k in (1, threads))
    assert (one.probability == several.probability).all()
    assert (one.stderr == several.stderr).all()
    assert one.iterations == several.iterations


def test_one_beta_does_not_know_of_the_others():
    together = phase.phase_diagram(5, 3, [0.0, 1.0, 4.0], [0.0, 3.0, 6.0], 0.01)
    for row, beta in enumerate(together.betas):
        alone = phase.phase_diagram(5, 3, [beta], [0.0, 3.0, 6.0], 0.01)
        assert (alone.probability[0] == together.probability[row]).all()
        assert (alone.stderr[0] == together.stderr[row]).all()
    mixed = phase.phase_diagram(5, 3, [4.0, 0.0, 1.0], [0.0, 3.0, 6.0], 0.01)
    assert (mixed.probability == together.probability[[2, 0, 1]]).all()


@pytest.mark.parametrize("d", [3, 6])
def test_times_need_not_start_at_zero_and_tokens_do(d):
    whole = phase.phase_diagram(5, d, [1.0], [0.0, 1.0, 2.5, 4.0], 0.01)
    late = phase.phase_diagram(5, d, [1.0], [2.5, 4.0], 0.01)
    assert (late.probability == whole.probability[:, 2:]).all()
    assert 0 < late.probability[0, 0] < 1


def test_the_seed_decides():
    first, again, other = (
        phase.phase_diagram(6, 3, [1.0], [0.0, 2.0, 4.0], 0.05, seed=seed) for seed in (1, 1, 2)
    )
    assert (first.probability == again.probability).all()
    assert (first.probability != other.probability).any()


def test_at_beta_zero_the_denominator_does_not_matter():
    with_it, without = (
        phase.phase_diagram(5, 3, [0.0], [0.0, 2.0, 4.0], 0.01, normalised=choice)
        for choice in (True, False)
    )
    assert (with_it.probability == without.probability).all()


# progress


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_counts_every_trajectory(threads):
    lock, calls = threading.Lock(), []

    def done(draws):
        with lock:
            calls.append(draws)

    phase.phase_diagram(3, 2, [0.0, 1.0, 2.0], [0.0, 1.0], 0.1, 150, threads=threads, done=done)
    assert sorted(calls) == [6] * 3 + [16] * 27
    assert sum(calls) == 3 * 150


def test_an_error_of_the_progress_reaches_the_caller():
    def done(draws):
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        phase.phase_diagram(3, 2, [0.0], [0.0, 1.0], 0.1, 2, done=done)


def test_the_cores_are_counted():
    assert 1 <= phase.cores() <= (os.cpu_count() or 1)


def test_the_cores_are_counted_where_affinity_is_unknown(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert phase.cores() == (os.cpu_count() or 1)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert phase.cores() == 1


# without numba


def test_without_numba_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "attnflow.sphere.compiled", raising=False)
    said = r"a phase diagram needs numba, which is not installed: pip install 'attnflow\[fast\]'"
    with pytest.raises(errors.MissingPackage, match=said):
        phase.phase_diagram(3, 2, [0.0], [0.0, 1.0])


def test_without_numba_arguments_are_still_refused_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "attnflow.sphere.compiled", raising=False)
    with pytest.raises(ValueError, match="n must be a whole number >= 2, got 1"):
        phase.phase_diagram(1, 2, [0.0], [0.0, 1.0])


def test_the_rest_of_the_sphere_does_not_need_numba():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from attnflow import sphere, flows\n"
        "print(round(sphere.hitting_time(0.0, 32, 1e-3), 6))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "5.186261"


# what is refused

GOOD = {"n": 4, "d": 3, "betas": [1.0], "times": [0.0, 1.0], "realisations": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 1}, "n must be a whole number >= 2, got 1"),
        ({"n": 0}, "n must be a whole number >= 2, got 0"),
        ({"n": 2.5}, "n must be a whole number >= 2, got 2.5"),
        ({"d": 1}, "d must be a whole number >= 2, got 1"),
        ({"d": "three"}, "d must be a whole number >= 2, got 'three'"),
        ({"betas": []}, "betas must not be empty, got none"),
        ({"betas": 1.0}, r"betas must have 1 axes, got shape \(\)"),
        ({"betas": [[1.0]]}, r"betas must have 1 axes, got shape \(1, 1\)"),
        ({"betas": [1.0, -1.0]}, r"betas must lie in \[0, 700\], got .*-1"),
        ({"betas": [701.0]}, r"betas must lie in \[0, 700\], got .*701"),
        ({"betas": [np.nan]}, "betas must be finite, got nan"),
        ({"betas": "warm"}, "betas must be an array of real numbers"),
        ({"times": [0.0]}, "times must be at least two increasing numbers"),
        ({"times": [1.0, 0.0]}, "times must be at least two increasing numbers"),
        ({"times": [1.0, 1.0]}, "times must be at least two increasing numbers"),
        ({"times": [-1.0, 1.0]}, "times must start at 0 or later, got -1"),
        ({"times": [0.0, np.inf]}, "times must be finite, got inf"),
        ({"delta": 0.0}, "delta must be a finite number > 0"),
        ({"delta": -0.1}, "delta must be a finite number > 0"),
        ({"delta": 1.0}, "delta must lie between 0 and 1, got 1"),
        ({"delta": 1.5}, "delta must lie between 0 and 1, got 1.5"),
        ({"delta": np.nan}, "delta must be a finite number > 0"),
        ({"realisations": 1}, "realisations must be a whole number >= 2, got 1"),
        ({"realisations": 0}, "realisations must be a whole number >= 2, got 0"),
        ({"realisations": 2.5}, "realisations must be a whole number >= 2, got 2.5"),
        ({"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ({"seed": 0.5}, "seed must be a whole number >= 0, got 0.5"),
        ({"seed": "lucky"}, "seed must be a whole number >= 0, got 'lucky'"),
        ({"threads": 0}, "threads must be a whole number >= 1, got 0"),
        ({"threads": 1.5}, "threads must be a whole number >= 1, got 1.5"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_phase_diagram_refuses_what_it_cannot_draw(change, message):
    with pytest.raises(ValueError, match=message):
        phase.phase_diagram(**{**GOOD, **change})
