"""Self-attention as a flow of interacting particles.

Import what you need from the module that holds the idea, for example
``from attnflow.attention import SoftmaxAttention``. This file imports nothing, so that the
modules a chapter reaches are exactly the ones it names.
"""

__version__ = "0.1.0"
