"""Rotations, and how deep points lie in their convex hull, facet by facet."""

from itertools import combinations

import numpy as np
from hypothesis import strategies as st

SEEDS = st.integers(0, 10**6)


def rotation(d, rng):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def depth_by_facets(points):
    """Distance to the nearest hyperplane through d points that has all points on one side."""
    p = np.asarray(points, dtype=float)
    d, best = p.shape[1], np.full(len(points), np.inf)
    for chosen in combinations(range(len(p)), d):
        edges = p[list(chosen[1:])] - p[chosen[0]]
        normal = np.linalg.svd(edges, full_matrices=True)[2][-1]
        if d > 1 and np.linalg.svd(edges, compute_uv=False)[-1] < 1e-9:
            continue
        heights = (p - p[chosen[0]]) @ normal
        if heights.max() <= 1e-12 or heights.min() >= -1e-12:
            best = np.minimum(best, np.abs(heights))
    return best
