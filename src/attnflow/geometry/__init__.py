"""Where tokens go when nothing holds them: rescaled tokens and the shapes they tend to.

:cite:t:`geshkovski2023` follow :math:`z = e^{-tV}x` under softmax attention, and show that the
tokens tend to a polytope, to parallel hyperplanes or to a polytope times a subspace, depending on V.

=====================  ==========================================================================
``rescaled``           the flow of the rescaled tokens, without overflow and beyond rounding
``limits``             what they tend to, decided from the data; who leads in an attention matrix
``hull``               how deep points lie in a convex hull, and its support function
``fixed``              layers that average at a fixed temperature, the kernel at z itself
``value``              V of a layer, and its dominant left eigenspace
=====================  ==========================================================================
"""

from attnflow.geometry.fixed import averaging_layers as averaging_layers
from attnflow.geometry.hull import hull_depth as hull_depth
from attnflow.geometry.hull import support as support
from attnflow.geometry.limits import Limit as Limit
from attnflow.geometry.limits import leaders as leaders
from attnflow.geometry.limits import limit as limit
from attnflow.geometry.rescaled import rescaled_flow as rescaled_flow
from attnflow.geometry.value import dominant as dominant
from attnflow.geometry.value import layer_value as layer_value
