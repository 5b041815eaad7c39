"""Layers by the matrix V, and tokens in groups."""

import numpy as np
from layers import ID

from attnflow.attention import (
    SoftmaxAttention,
)

SHEAR = np.array([[1.0, 0.6, -0.3], [0.2, 1.0, 0.4], [0.0, -0.5, 1.0]])


TRIANGLE = np.array([[1.0, 0.0], [-0.5, 0.8], [-0.4, -0.9]])


def softmax(V):
    V = np.array(V, dtype=float)
    return SoftmaxAttention(np.eye(len(V)), np.eye(len(V)), V)


IDENTITY = softmax(ID)


SIMPLE = softmax([[2.0, 1.0], [0.0, 0.5]])  # left eigenvectors (3, 2) for 2 and (0, 1) for 1/2


PARANORMAL = softmax(SHEAR @ np.diag([1.0, 1.0, 0.3]) @ np.linalg.inv(SHEAR))


def groups(centres, copies, width, rng):
    """`copies` tokens at most width/2 from each centre, and the true labels."""
    truth = np.repeat(np.arange(len(centres)), copies)
    step = rng.normal(size=(len(truth), np.shape(centres)[1]))
    step *= rng.uniform(0, width / 2, size=(len(truth), 1)) / np.linalg.norm(step, axis=1)[:, None]
    return np.asarray(centres, dtype=float)[truth] + step, truth


def same_partition(a, b):
    return ((a[:, None] == a) == (b[:, None] == b)).all()


LIMITS = {
    "point": (IDENTITY, np.array([[0.4, 1.0]])),
    "polytope": (IDENTITY, TRIANGLE),
    "hyperplanes": (SIMPLE, np.array([[-1.0], [0.2], [0.9]])),
    "polytope x subspace": (PARANORMAL, TRIANGLE),
}
