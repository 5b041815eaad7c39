"""Tokens on the sphere from their definition, one token at a time."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

NORMALISED = pytest.mark.parametrize("normalised", [True, False], ids=["SA", "USA"])


def ball(n, d, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, d))
    return x / np.sqrt((x**2).sum(axis=1, keepdims=True))


def plain_velocity(x, beta, normalised=True, causal=False):
    """The definition, one token at a time."""
    out = []
    for i, xi in enumerate(x):
        seen = x[: i + 1] if causal else x
        e = [math.exp(beta * float(xi @ xj)) for xj in seen]
        bottom = sum(e) if normalised else len(seen)
        mean = sum(a / bottom * xj for a, xj in zip(e, seen, strict=True))
        out.append(mean - (mean @ xi) * xi)
    return np.array(out)


def followed(velocity, x0, times, since, **how):
    """Tokens at `times`, by scipy, from x0 at the time `since`."""
    found = solve_ivp(
        lambda t, y: velocity(y.reshape(x0.shape)).ravel(),
        (since, times[-1]),
        x0.ravel(),
        t_eval=times,
        **how,
    )
    return found.y.T.reshape(len(times), *x0.shape)


def plain_flow(x0, beta, times, normalised=True, causal=False, method="RK45"):
    def velocity(x):
        return plain_velocity(x, beta, normalised, causal)

    return followed(velocity, x0, times, times[0], method=method, rtol=1e-11, atol=1e-12)


def circle(n, seed=3):
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, n)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)
