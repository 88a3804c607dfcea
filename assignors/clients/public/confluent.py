"""`ManagedConsumer` for confluent-kafka, and the public names that belong to it.

The package follows published assignments; it knows the hand-over protocol and no strategy.

- `ManagedConsumer`: a consumer whose partitions levelwind assigns.
- `AsyncManagedConsumer`: the same for asyncio.
- `FencingToken`: proof of ownership for a store that refuses writes of former owners.
- `OwnershipChange`: one entry of the journal that a consumer can keep of what it owned.
- `Phase`: the state of a consumer in the hand-over, as `ManagedConsumer.phase` gives it.
- `NotOwnedError`: a call names a partition that the consumer does not own.
- `SettingError`: an argument or a librdkafka setting is not allowed.
- `StraySubscriberError`: a subscribing consumer under the same group id blocks all commits.

Log lines go to the logger `levelwind.clients.confluent`, one event each (`member.granted`
and so on); the same fields are in the log record's attribute `levelwind`.
"""

from levelwind.assignors.clients.confluent.async_consumer import AsyncManagedConsumer
from levelwind.assignors.clients.confluent.consumer import (
    FencingToken,
    ManagedConsumer,
    NotOwnedError,
    OwnershipChange,
    SettingError,
    StraySubscriberError,
)
from levelwind.assignors.handover.member_state import Phase

__all__ = [
    "AsyncManagedConsumer",
    "FencingToken",
    "ManagedConsumer",
    "NotOwnedError",
    "OwnershipChange",
    "Phase",
    "SettingError",
    "StraySubscriberError",
]
