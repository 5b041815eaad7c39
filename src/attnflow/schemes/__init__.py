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

from attnflow.schemes.paths import Path as Path
from attnflow.schemes.paths import bridge_path as bridge_path
from attnflow.schemes.paths import euler_path as euler_path
from attnflow.schemes.paths import one_step_distance as one_step_distance
from attnflow.schemes.paths import path_errors as path_errors
from attnflow.schemes.paths import score_error as score_error
from attnflow.schemes.paths import steps_to as steps_to
from attnflow.schemes.paths import uniform_error as uniform_error
from attnflow.schemes.steps import Layers as Layers
from attnflow.schemes.steps import bridge_step as bridge_step
from attnflow.schemes.steps import euler_step as euler_step
from attnflow.schemes.steps import general_step as general_step
from attnflow.schemes.steps import iterate as iterate
from attnflow.schemes.steps import reflected as reflected
