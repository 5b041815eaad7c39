"""What one layer of attention does to tokens, seen as a velocity field.

``layer`` says what every layer has, ``kinds`` the four rules that turn scores into a matrix,
``fast`` computes the same in linear time, ``head`` is a softmax head as trained networks have it.
"""

from attnflow.attention.head import Head as Head
from attnflow.attention.head import SoftmaxLayer as SoftmaxLayer
from attnflow.attention.kinds import L2Attention as L2Attention
from attnflow.attention.kinds import SinkhornAttention as SinkhornAttention
from attnflow.attention.kinds import SoftmaxAttention as SoftmaxAttention
from attnflow.attention.kinds import UnnormalisedAttention as UnnormalisedAttention
from attnflow.attention.layer import Attention as Attention
from attnflow.attention.layer import Layer as Layer
from attnflow.attention.layer import MultiHead as MultiHead
