"""Trained transformers: real weights read without running anything, and their forward passes in numpy.

``loading``
    a model by its name or its place
``model``
    the transformer, and the trace of what it did
``altered``
    networks with weights shuffled, drawn afresh, or parts silenced
``derivative``
    the derivative of a sublayer, of a layer, of several, as products, and its norm
``certificate``
    how rough a layer can be at given tokens, from one forward pass
``sinks``
    what a token that everybody attends to costs
``stored``
    a run over all layers, which takes too long for a chapter
``kinds``
    every architecture: ``bert``, ``albert`` (and what they share, ``encoder``), ``gpt2``, ``llama``
``architecture``
    what all architectures have in common
``neural``
    the functions between the matrices
``checkpoints``
    a file or a directory, told by its first bytes
``safe``, ``ggml``, ``pytorch``
    the file formats, which all become ``weights``; ``unpickle`` and ``jsons`` read what others wrote
``tokens``
    from text to numbers
"""

from attnflow.trained.architecture import Architecture as Architecture
from attnflow.trained.architecture import Norm as Norm
from attnflow.trained.loading import NAMES as NAMES
from attnflow.trained.loading import load as load
from attnflow.trained.model import Model as Model
from attnflow.trained.model import Trace as Trace
from attnflow.trained.weights import CheckpointError as CheckpointError
from attnflow.trained.weights import Tensor as Tensor
from attnflow.trained.weights import Weights as Weights
