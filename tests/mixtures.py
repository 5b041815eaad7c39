"""Mixtures of Gaussians that are tried."""

import numpy as np

from attnflow.densities import Gaussian, GaussianMixture

MIX = GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])


TILTED = {
    1: Gaussian(0.5, 1.7),
    2: Gaussian([0.5, -1.0], [[1.0, 0.4], [0.4, 0.7]]),
    3: Gaussian([0.0, 0.5, 1.0], np.diag([0.6, 1.0, 1.4]) + 0.2),
}
