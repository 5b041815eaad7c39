r"""Four places for layer normalisation: what they do to attention with Q = K = V = I.

With :math:`N(x) = x/|x|`, token by token, and :math:`m_i = \sum_j A_{ij} N(x_j)`, where A is the
row-softmax of :math:`\beta\langle N(x_i), N(x_j)\rangle`, one layer of step h is

========  ======================================  ==========================================
norm      layer                                   flow, for :math:`h \to 0`
========  ======================================  ==========================================
post      :math:`N(x + h\,m)`                     :math:`\dot x = P_x m`
pre       :math:`x + h\,m`                        :math:`\dot x = m`
peri      :math:`x + h\,N(m)`                     :math:`\dot x = N(m)`
nGPT      :math:`N(x + h\,(N(m) - x))`            :math:`\dot x = P_x N(m)`
========  ======================================  ==========================================

(:cite:t:`xiong2020`, :cite:t:`kim2025`, :cite:t:`loshchilov2025`; as flows of particles
:cite:t:`karagodin2025`). From tokens with one common cosine all four have the same orbit, and
differ by their clocks.

============  ===================================================================================
``tokens``    the layers and the flows of tokens
``orbit``     the common orbit of equiangular tokens, in closed form
``clocks``    when tokens meet, by four clocks; curves, diagrams and last phases
``laws``      what remains of these times for many tokens
``depth``     layers of equiangular tokens: a map of one or two numbers
============  ===================================================================================
"""

from attnflow.norms.clocks import Curve as Curve
from attnflow.norms.clocks import curve as curve
from attnflow.norms.clocks import diagram as diagram
from attnflow.norms.clocks import last_phase as last_phase
from attnflow.norms.clocks import log_meeting_time as log_meeting_time
from attnflow.norms.clocks import meeting_time as meeting_time
from attnflow.norms.depth import equiangular_layers as equiangular_layers
from attnflow.norms.depth import layers_to_meet as layers_to_meet
from attnflow.norms.depth import layers_to_time as layers_to_time
from attnflow.norms.laws import critical_beta as critical_beta
from attnflow.norms.laws import limit_below as limit_below
from attnflow.norms.laws import sphere_law as sphere_law
from attnflow.norms.laws import window_exponent as window_exponent
from attnflow.norms.orbit import Reading as Reading
from attnflow.norms.orbit import reading as reading
from attnflow.norms.orbit import size as size
from attnflow.norms.orbit import sphere_time as sphere_time
from attnflow.norms.tokens import NORMS as NORMS
from attnflow.norms.tokens import flow as flow
from attnflow.norms.tokens import layers as layers
from attnflow.norms.tokens import velocity as velocity
