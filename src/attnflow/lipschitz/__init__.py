"""How much a layer of attention can stretch a change of its tokens.

``jacobian``
    the products of a layer's derivative with a change of the tokens, and of its transpose
``lanczos``
    the local constant, the norm of that derivative, between two ends that are proved
``square``
    the product of the two, formed for all heads between the few dimensions that they use
``certificate``
    what a random start proves about eigenvalues that it has not found
``bounds``
    what the constant of a ball is at most and at least, and the constant gamma of the lower one
``configurations``
    tokens at which a layer stretches much: one leader, tokens spread out, a ray
``leaders``
    two leaders between which all others are undecided
``sharp``
    the constant that they reach, for every score matrix
``groups``
    the local constant where many tokens stand together, whatever their number
``crowd``
    the exponent of exponentially many tokens, and the leader and followers that reach it
``dual``
    maxima over the unit ball that one convex function of one number bounds: for the two before
``sigmoid``
    the same products where sigmoids stand in the place of softmax
``mass``
    what the constant of such a layer is at most, and the crowds that reach it
``heads``
    several heads, from above and from below
``ascent``
    a search for worse tokens
``ball``
    the matrices and the radius that all bounds are given
"""

from attnflow.attention.head import Head as Head
from attnflow.lipschitz.ascent import Ascent as Ascent
from attnflow.lipschitz.ascent import worse as worse
from attnflow.lipschitz.bounds import followed as followed
from attnflow.lipschitz.bounds import gamma as gamma
from attnflow.lipschitz.bounds import layer_upper_bound as layer_upper_bound
from attnflow.lipschitz.bounds import lower_bound as lower_bound
from attnflow.lipschitz.bounds import mean_field_lower as mean_field_lower
from attnflow.lipschitz.bounds import mean_field_upper as mean_field_upper
from attnflow.lipschitz.bounds import sharper_lower_bound as sharper_lower_bound
from attnflow.lipschitz.bounds import tight_upper_bound as tight_upper_bound
from attnflow.lipschitz.bounds import upper_bound as upper_bound
from attnflow.lipschitz.configurations import LargeRadius as LargeRadius
from attnflow.lipschitz.configurations import adversarial as adversarial
from attnflow.lipschitz.configurations import large_radius as large_radius
from attnflow.lipschitz.configurations import spread as spread
from attnflow.lipschitz.configurations import spread_bound as spread_bound
from attnflow.lipschitz.crowd import exponent as exponent
from attnflow.lipschitz.crowd import exponent_lower_bound as exponent_lower_bound
from attnflow.lipschitz.crowd import exponent_upper_bound as exponent_upper_bound
from attnflow.lipschitz.crowd import one_leader as one_leader
from attnflow.lipschitz.dual import Attained as Attained
from attnflow.lipschitz.groups import grouped as grouped
from attnflow.lipschitz.groups import grouped_constant as grouped_constant
from attnflow.lipschitz.heads import multi_head_lower_bound as multi_head_lower_bound
from attnflow.lipschitz.heads import multi_head_upper_bound as multi_head_upper_bound
from attnflow.lipschitz.jacobian import Linearised as Linearised
from attnflow.lipschitz.jacobian import jvp as jvp
from attnflow.lipschitz.jacobian import vjp as vjp
from attnflow.lipschitz.lanczos import LocalConstant as LocalConstant
from attnflow.lipschitz.lanczos import local_constant as local_constant
from attnflow.lipschitz.leaders import Places as Places
from attnflow.lipschitz.leaders import places as places
from attnflow.lipschitz.leaders import two_leaders as two_leaders
from attnflow.lipschitz.leaders import two_leaders_bound as two_leaders_bound
from attnflow.lipschitz.mass import sigmoid_leaders as sigmoid_leaders
from attnflow.lipschitz.mass import sigmoid_leaders_bound as sigmoid_leaders_bound
from attnflow.lipschitz.mass import sigmoid_upper_bound as sigmoid_upper_bound
from attnflow.lipschitz.sharp import sharp_constant as sharp_constant
from attnflow.lipschitz.sharp import sharp_upper_bound as sharp_upper_bound
from attnflow.lipschitz.sigmoid import SigmoidLinearised as SigmoidLinearised
