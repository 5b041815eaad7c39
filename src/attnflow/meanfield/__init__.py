r"""Tokens as a measure: quadratures, distances between flows, bounds, and the masked layer.

A measure is points with weights. Attention acts on it through the same classes as on tokens, and
:func:`attnflow.flows.ode` moves it. :cite:t:`castin2025` prove that the flow of a compactly
supported measure exists for all times, that its support stays in a ball of radius
:math:`e^{\int|V|}R_0`, and that nearby measures stay near.

=====================  ==========================================================================
``measures``           points with weights, from a Gauss-Hermite grid or a Sobol sequence
``distances``          the Wasserstein distance :math:`W_p`
``bounds``             how far the support reaches, and how far two flows come apart
``masked``             the layer with a mask, on measures over positions and tokens
=====================  ==========================================================================
"""

from attnflow.meanfield.bounds import log_stability_bound as log_stability_bound
from attnflow.meanfield.bounds import support_bound as support_bound
from attnflow.meanfield.distances import wasserstein as wasserstein
from attnflow.meanfield.masked import MaskedMeanField as MaskedMeanField
from attnflow.meanfield.masked import running_mean_norm as running_mean_norm
from attnflow.meanfield.measures import Measure as Measure
from attnflow.meanfield.measures import measure as measure
from attnflow.meanfield.measures import quadrature as quadrature
from attnflow.meanfield.measures import quasi as quasi
