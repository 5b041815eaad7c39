r"""Layers that follow the heat equation: the bridge step, the explicit Euler step, and their errors.

One layer of Sinkhorn attention with :math:`Q^\top K = -V = I` is :math:`x \mapsto 2x - B(x)`.
Along the heat flow particles move by :math:`\dot x = -b(t, x)`, :math:`b = \tfrac12\nabla\log\rho_t`, and
:math:`\ddot x = -\nabla U` exactly; since :math:`B(x) = x + \varepsilon b + \tfrac{\varepsilon^2}{2}\nabla U
+ O(\varepsilon^3)`, the bridge step agrees with the flow through :math:`\varepsilon^2` (order 2) while the explicit
Euler step :math:`x - \varepsilon b` does not (order 1). That the layers converge to the heat flow is shown by
:cite:t:`agarwal2024`.

:mod:`~attnflow.schemes.steps` moves tokens; :mod:`~attnflow.schemes.paths` carries a density
through the layers without noise, on the line, and measures how far the layers are from the flow.
"""

from attnflow.schemes.ingredients import Triangle as Triangle
from attnflow.schemes.ingredients import curve_error as curve_error
from attnflow.schemes.ingredients import fourth_order_term as fourth_order_term
from attnflow.schemes.ingredients import heat_particles as heat_particles
from attnflow.schemes.ingredients import second_order_constant as second_order_constant
from attnflow.schemes.ingredients import stair_error as stair_error
from attnflow.schemes.ingredients import triangle as triangle
from attnflow.schemes.paths import Path as Path
from attnflow.schemes.paths import bridge_path as bridge_path
from attnflow.schemes.paths import euler_path as euler_path
from attnflow.schemes.paths import one_step_distance as one_step_distance
from attnflow.schemes.paths import path_errors as path_errors
from attnflow.schemes.paths import score_error as score_error
from attnflow.schemes.paths import steps_to as steps_to
from attnflow.schemes.paths import uniform_error as uniform_error
from attnflow.schemes.rough import Box as Box
from attnflow.schemes.rough import Kinked as Kinked
from attnflow.schemes.rough import Rough as Rough
from attnflow.schemes.rough import linear_errors as linear_errors
from attnflow.schemes.rough import rough_errors as rough_errors
from attnflow.schemes.sampling import best_temperature as best_temperature
from attnflow.schemes.sampling import noise_constant as noise_constant
from attnflow.schemes.sampling import noise_variance as noise_variance
from attnflow.schemes.splitting import fokker_planck_error as fokker_planck_error
from attnflow.schemes.splitting import fokker_planck_map as fokker_planck_map
from attnflow.schemes.splitting import lie_path as lie_path
from attnflow.schemes.splitting import potential_flow as potential_flow
from attnflow.schemes.splitting import strang_path as strang_path
from attnflow.schemes.splitting import surrogate_path as surrogate_path
from attnflow.schemes.stability import Breakdown as Breakdown
from attnflow.schemes.stability import bridge_amplification as bridge_amplification
from attnflow.schemes.stability import euler_amplification as euler_amplification
from attnflow.schemes.stability import euler_breakdown as euler_breakdown
from attnflow.schemes.stability import euler_stretches as euler_stretches
from attnflow.schemes.stability import filtered_stretch as filtered_stretch
from attnflow.schemes.stability import fit_breakdown as fit_breakdown
from attnflow.schemes.steps import Layers as Layers
from attnflow.schemes.steps import bridge_step as bridge_step
from attnflow.schemes.steps import euler_step as euler_step
from attnflow.schemes.steps import general_step as general_step
from attnflow.schemes.steps import heat_share as heat_share
from attnflow.schemes.steps import iterate as iterate
from attnflow.schemes.steps import reflected as reflected
