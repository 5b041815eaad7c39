"""Products with Gaussian kernels: ``dense`` stores the matrix, ``fast`` takes linear time in d <= 3."""

from attnflow.kernels.dense import DenseKernel as DenseKernel
from attnflow.kernels.dense import Kernel as Kernel
from attnflow.kernels.dense import squared_distances as squared_distances
from attnflow.kernels.fast import FastKernel as FastKernel
from attnflow.kernels.fast import cheaper as cheaper
