"""`ManagedConsumer` on confluent-kafka; it knows the protocol and no strategy."""

from assignors.clients.confluent.consumer import (
    ManagedConsumer,
    NotOwnedError,
    OwnershipChange,
    SettingError,
    StraySubscriberError,
)
from assignors.handover.member_machine import Phase

__all__ = [
    "ManagedConsumer",
    "NotOwnedError",
    "OwnershipChange",
    "Phase",
    "SettingError",
    "StraySubscriberError",
]
