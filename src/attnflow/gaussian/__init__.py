r"""Gaussian data: everything about it is matrices, in closed form or by one small equation.

Transport of Gaussians is linear algebra, and Gaussian tokens stay Gaussian under attention.

* ``closed_forms``: the bridge of a Gaussian to itself, one step of it, distances;
* ``recursions``: variances along layers, and along the Ornstein-Uhlenbeck process;
* ``affine``: the velocity that attention gives to a Gaussian, an affine map;
* ``flow``: covariance and mean along time. Its parts: ``system`` (what is integrated), ``leg`` (one
  integration up to where it stops) and ``diagnosis`` (what a stop means);
* ``exact``: the flows of the variance in one dimension, solved;
* ``limits``: when a flow blows up, and the rank of what it tends to;
* ``fates``: which of these a flow does, read from the flow;
* ``integrals``: layers that mirror, whose flows are solved;
* ``cones``: growth without blow-up, its axis and its exponent;
* ``stored``: what random layers do, counted by dimension.
"""

from attnflow.gaussian.affine import affine_velocity as affine_velocity
from attnflow.gaussian.closed_forms import bridge_gain as bridge_gain
from attnflow.gaussian.closed_forms import bridge_step_cov as bridge_step_cov
from attnflow.gaussian.closed_forms import bures_w2 as bures_w2
from attnflow.gaussian.closed_forms import euler_step_cov as euler_step_cov
from attnflow.gaussian.closed_forms import langevin_path_kl as langevin_path_kl
from attnflow.gaussian.closed_forms import langevin_symmetric_kl as langevin_symmetric_kl
from attnflow.gaussian.closed_forms import one_step_w2 as one_step_w2
from attnflow.gaussian.closed_forms import optimal_map as optimal_map
from attnflow.gaussian.cones import Cone as Cone
from attnflow.gaussian.cones import Growth as Growth
from attnflow.gaussian.cones import cone as cone
from attnflow.gaussian.cones import cone_axes as cone_axes
from attnflow.gaussian.cones import growth as growth
from attnflow.gaussian.exact import l2_variance as l2_variance
from attnflow.gaussian.exact import sinkhorn_variance as sinkhorn_variance
from attnflow.gaussian.exact import softmax_variance as softmax_variance
from attnflow.gaussian.fates import Fate as Fate
from attnflow.gaussian.fates import fate as fate
from attnflow.gaussian.flow import GaussianFlow as GaussianFlow
from attnflow.gaussian.flow import covariance_flow as covariance_flow
from attnflow.gaussian.flow import gaussian_flow as gaussian_flow
from attnflow.gaussian.integrals import mirror_covariance as mirror_covariance
from attnflow.gaussian.integrals import mirror_difference as mirror_difference
from attnflow.gaussian.integrals import mirror_limit as mirror_limit
from attnflow.gaussian.limits import Rank as Rank
from attnflow.gaussian.limits import blow_up_time as blow_up_time
from attnflow.gaussian.limits import limit_rank as limit_rank
from attnflow.gaussian.recursions import bridge_recursion as bridge_recursion
from attnflow.gaussian.recursions import euler_recursion as euler_recursion
from attnflow.gaussian.recursions import fokker_planck_recursion as fokker_planck_recursion
from attnflow.gaussian.recursions import ornstein_uhlenbeck as ornstein_uhlenbeck
from attnflow.gaussian.stored import Outcomes as Outcomes
from attnflow.gaussian.stored import stored_fates as stored_fates
