r"""Tokens on the sphere with Q = K = V = I: energy, clusters, and how long they take.

Layer normalisation after every layer turns attention into a flow on the sphere,

.. math:: \dot x_i = P_{x_i} \sum_j A_{ij} x_j, \qquad P_x = I - xx^\top,

with :math:`A_{ij} = e^{\beta\langle x_i,x_j\rangle}/\sum_k e^{\beta\langle x_i,x_k\rangle}`
(self-attention, SA) or :math:`A_{ij} = e^{\beta\langle x_i,x_j\rangle}/n` (unnormalised, USA):
:cite:t:`geshkovski2025`. A causal mask lets token i see tokens 1..i alone; sums then run over these.

=====================  ==========================================================================
``tokens``             the velocity and the flow of tokens, their clusters, uniform starts
``energies``           the energy that never falls, its rate and its extremes
``modes``              the energy by Gegenbauer polynomials
``critical``           where the flow can rest, and how it leaves these places
``gram``               the flow of the inner products alone
``orthogonal``         closed forms: the orthogonal start, and two clusters that merge
``linear``             how a nearly orthogonal start strays from the common curve
``stacks``             many starts at once, and when each of them is one cluster
``phase``              the phase diagram over time and temperature
``stored``             the full-scale diagrams that come with the package
``circle``             clusters on the circle, followed through all their merges
``gaps``               tokens on the circle by the logarithms of their gaps: no merge, any time
``coalescence``        the coalescing model: when clusters merge, and where
``parking``            who leads in a decoder, and Renyi's parking
``fields``             how fast tokens and inner products move, compiled
``compiled``           the loop behind ``phase``, which needs numba and is loaded at its first use
=====================  ==========================================================================
"""

from attnflow.sphere.circle import Merges as Merges
from attnflow.sphere.circle import merges as merges
from attnflow.sphere.coalescence import Staircase as Staircase
from attnflow.sphere.coalescence import coalesce as coalesce
from attnflow.sphere.coalescence import pair_log_limit as pair_log_limit
from attnflow.sphere.coalescence import pair_log_time as pair_log_time
from attnflow.sphere.coalescence import pair_place as pair_place
from attnflow.sphere.coalescence import place_shift as place_shift
from attnflow.sphere.critical import Critical as Critical
from attnflow.sphere.critical import critical_points as critical_points
from attnflow.sphere.critical import described as described
from attnflow.sphere.critical import field_jacobian as field_jacobian
from attnflow.sphere.critical import saddle_bound as saddle_bound
from attnflow.sphere.critical import tangent_bases as tangent_bases
from attnflow.sphere.energies import dirac_energy as dirac_energy
from attnflow.sphere.energies import energy as energy
from attnflow.sphere.energies import energy_rate as energy_rate
from attnflow.sphere.energies import uniform_energy as uniform_energy
from attnflow.sphere.gaps import Gathering as Gathering
from attnflow.sphere.gaps import gathering as gathering
from attnflow.sphere.gram import GramFlow as GramFlow
from attnflow.sphere.gram import gram_flow as gram_flow
from attnflow.sphere.linear import Response as Response
from attnflow.sphere.linear import response as response
from attnflow.sphere.modes import exponential_modes as exponential_modes
from attnflow.sphere.modes import gegenbauer as gegenbauer
from attnflow.sphere.modes import pair_modes as pair_modes
from attnflow.sphere.orthogonal import gamma as gamma
from attnflow.sphere.orthogonal import hitting_time as hitting_time
from attnflow.sphere.orthogonal import merge_time as merge_time
from attnflow.sphere.parking import Captures as Captures
from attnflow.sphere.parking import captures as captures
from attnflow.sphere.parking import park as park
from attnflow.sphere.parking import parking_density as parking_density
from attnflow.sphere.phase import PhaseDiagram as PhaseDiagram
from attnflow.sphere.phase import cores as cores
from attnflow.sphere.phase import grams as grams
from attnflow.sphere.phase import phase_diagram as phase_diagram
from attnflow.sphere.stacks import cluster_times as cluster_times
from attnflow.sphere.stacks import meeting_times as meeting_times
from attnflow.sphere.stacks import velocities as velocities
from attnflow.sphere.stored import Figure3 as Figure3
from attnflow.sphere.stored import figure3 as figure3
from attnflow.sphere.stored import save_figure3 as save_figure3
from attnflow.sphere.tokens import clusters as clusters
from attnflow.sphere.tokens import flow as flow
from attnflow.sphere.tokens import uniform as uniform
from attnflow.sphere.tokens import velocity as velocity
