"""Products with Gaussian kernels, in three ways.

``dense`` stores the matrix, ``blocked`` makes it anew a few rows at a time, ``fast`` takes linear time in
at most three dimensions.
"""

from attnflow.kernels.blocked import BlockedKernel as BlockedKernel
from attnflow.kernels.dense import DenseKernel as DenseKernel
from attnflow.kernels.dense import Kernel as Kernel
from attnflow.kernels.dense import squared_distances as squared_distances
from attnflow.kernels.fast import FastKernel as FastKernel
from attnflow.kernels.fast import FastPair as FastPair
from attnflow.kernels.fast import cheaper as cheaper
