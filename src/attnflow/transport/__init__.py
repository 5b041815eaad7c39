"""Moving mass: one measure to itself, one to another, and how far apart they are.

``bridge`` balances a measure with itself, ``pair`` one with another, ``balance`` any matrix of scores with any
two marginals, ``wasserstein`` measures distances.
"""

from attnflow.transport.balance import Potentials as Potentials
from attnflow.transport.balance import sinkhorn as sinkhorn
from attnflow.transport.bridge import Bridge as Bridge
from attnflow.transport.bridge import self_bridge as self_bridge
from attnflow.transport.pair import PairBridge as PairBridge
from attnflow.transport.pair import pair_bridge as pair_bridge
from attnflow.transport.wasserstein import w2 as w2
