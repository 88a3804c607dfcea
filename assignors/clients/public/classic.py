"""What the assignors of classic groups take, whichever client has them; asked with confluent-kafka.

- `BrokerLag`: the lag of a group, for strategies that read it.
- `PublishedPlans`: the plans that the daemon publishes, for `PublishedAssignor`.
- `LagUnavailableError`: what a source of lag raises where it has none.
- `InconsistentGroupProtocolError`, `no_common_protocol`: the error for a member that shares no
  strategy with its group, in words that say what to do.
"""

from levelwind.assignors.clients.broker_lag import BrokerLag
from levelwind.assignors.clients.classic.lag_source import LagUnavailableError
from levelwind.assignors.clients.group_protocols import no_common_protocol
from levelwind.assignors.clients.published_plans import PublishedPlans
from levelwind.assignors.strategies.vote import InconsistentGroupProtocolError

__all__ = [
    "BrokerLag",
    "InconsistentGroupProtocolError",
    "LagUnavailableError",
    "PublishedPlans",
    "no_common_protocol",
]
