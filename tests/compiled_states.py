"""States of the compiled flows on the sphere, and tokens followed by scipy from the definition."""

import itertools

import numpy as np
import pytest
from spheres import followed

from attnflow.sphere import compiled

STATES = pytest.mark.parametrize("as_gram", [True, False], ids=["G", "tokens"])


def tokens_field(x, beta, normalised=True):
    """x_i' of the definition, for tokens (n, d)."""
    a = np.exp(beta * (x @ x.T))
    a /= a.sum(axis=1, keepdims=True) if normalised else len(x)
    v = a @ x
    return v - (v * x).sum(axis=1, keepdims=True) * x


def reference(x, beta, times, normalised=True):
    """Tokens at `times`, from time 0."""

    def velocity(y):
        return tokens_field(y, beta, normalised)

    with np.errstate(over="ignore", invalid="ignore"):  # trial steps
        return followed(velocity, x, times, 0.0, method="DOP853", rtol=1e-12, atol=1e-13)


def share(g, level):
    pairs = [g[i, j] >= level for i, j in itertools.combinations(range(len(g)), 2)]
    return sum(pairs) / len(pairs)


def state(x, as_gram):
    return x @ x.T if as_gram else x.copy()


def packed(g):
    """What stands below the diagonal, row after row."""
    return np.array([g[i, j] for i in range(len(g)) for j in range(i)])


def flat(x, as_gram):
    """Tokens as the compiled loop has them."""
    return packed(x @ x.T) if as_gram else x.ravel().copy()


def clustered(states, as_gram, *given):
    return (compiled.clustered_grams if as_gram else compiled.clustered_tokens)(states, *given)
