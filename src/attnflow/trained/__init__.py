"""Trained transformers: real weights read without running anything, and their forward passes in numpy.

``model`` is the transformer; ``neural`` what its layers are made of; ``layouts`` where each kind keeps
its weights; ``checkpoints`` and ``unpickle`` the file formats, which all become ``weights``;
``tokens`` turns text into numbers.
"""

from attnflow.trained.model import NAMES, Model, Trace, load
from attnflow.trained.weights import CheckpointError

__all__ = ["NAMES", "CheckpointError", "Model", "Trace", "load"]
