"""Settings of the three librdkafka clients: the user's, and those of the hand-over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignors.handover.timers import Timers

# Settings that the user may not give, and what to do instead.
RESERVED_SETTINGS: Mapping[str, str] = {
    "group.id": "give `group`",
    "group.instance.id": "give `instance`: the client is no member of the broker's group",
    "group.protocol": "the planner assigns, not the broker",
    "group.protocol.type": "the planner assigns, not the broker",
    "group.remote.assignor": "the planner assigns, not the broker",
    "partition.assignment.strategy": "the planner assigns, not the group's leader",
    "session.timeout.ms": "it bounds how late a commit can arrive: give `timers`",
    "socket.timeout.ms": "it bounds how late a commit can arrive: give `timers`",
    "heartbeat.interval.ms": "give `timers`",
}
# Prefixes of connection settings, which the two clients of the hand-over get as well.
CONNECTION_PREFIXES = (
    "bootstrap.servers",
    "metadata.broker.list",
    "client.id",
    "client.dns.lookup",
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl.",
    "enable.sasl.",
    "https.",
    "oauth_cb",
    "broker.address.",
    "reconnect.",
    "socket.connection.",
    "socket.keepalive.",
    "api.version.",
    "debug",
    "log_level",
    "logger",
)


class SettingError(ValueError):
    """An argument or a librdkafka setting that `ManagedConsumer` does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Settings of the three clients, and of what `ManagedConsumer` does itself."""

    consumer: dict[str, Any]
    reader: dict[str, Any]
    producer: dict[str, Any]
    auto_commit: bool
    """Whether processed offsets are committed without the application's `commit`."""
    auto_store: bool
    """Whether a record counts as processed when the application asks for the next one."""
    commit_interval: float
    """Seconds between two automatic commits."""
    max_poll_interval: float
    """Seconds that the application may stay away from `poll`."""
    from_latest: bool
    """Whether a partition without a commit starts at its end."""
    on_commit: Callable[..., object] | None
    """The user's callback for the outcome of commits."""


def client_settings(
    config: Mapping[str, Any], *, group: str, rack: str | None, timers: Timers
) -> ClientSettings:
    """Divide the user's settings among the three clients.

    Raises:
        SettingError: A setting belongs to the hand-over, or its value makes no sense.
    """
    for name in config:
        if name in RESERVED_SETTINGS:
            raise SettingError(f"{name} cannot be set here: {RESERVED_SETTINGS[name]}")
    given = dict(config)
    connection = {
        name: value for name, value in given.items() if name.startswith(CONNECTION_PREFIXES)
    }
    auto_commit = _flag(given.pop("enable.auto.commit", True), "enable.auto.commit")
    auto_store = _flag(given.pop("enable.auto.offset.store", True), "enable.auto.offset.store")
    commit_interval = _milliseconds(
        given.pop("auto.commit.interval.ms", 5000), "auto.commit.interval.ms"
    )
    poll_interval = _milliseconds(
        given.get("max.poll.interval.ms", 300_000), "max.poll.interval.ms"
    )
    reset = str(given.get("auto.offset.reset", "latest")).lower()
    on_commit = given.pop("on_commit", None)
    return ClientSettings(
        consumer=_consumer(given, poll_interval, group=group, rack=rack, timers=timers),
        reader=_reader(connection, group),
        producer=_producer(connection, timers),
        auto_commit=auto_commit,
        auto_store=auto_store,
        commit_interval=commit_interval / 1000,
        max_poll_interval=poll_interval / 1000,
        from_latest=reset in ("latest", "largest", "end"),
        on_commit=on_commit,
    )


def _consumer(
    given: Mapping[str, Any], poll_interval: int, *, group: str, rack: str | None, timers: Timers
) -> dict[str, Any]:
    # librdkafka holds a commit back while it has no coordinator, up to the session timeout, and
    # retries it once: two of each take `timers.commit`.
    bound = max(int(timers.commit * 1000 / 4), 10)
    fetch_wait = _milliseconds(given.get("fetch.wait.max.ms", 500), "fetch.wait.max.ms")
    return {
        **({"client.rack": rack} if rack is not None else {}),
        **given,
        "session.timeout.ms": bound,
        "socket.timeout.ms": bound,
        "heartbeat.interval.ms": max(bound // 3, 1),
        "fetch.wait.max.ms": min(fetch_wait, bound // 2),
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "max.poll.interval.ms": max(poll_interval, bound),
    }


def _reader(connection: Mapping[str, Any], group: str) -> dict[str, Any]:
    return {
        **connection,
        # librdkafka requires a group, and the user has the right to this one; nothing is committed.
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        # The end of a partition is not the last record's offset + 1: transaction markers follow.
        "enable.partition.eof": True,
    }


def _producer(connection: Mapping[str, Any], timers: Timers) -> dict[str, Any]:
    return {
        **connection,
        "enable.idempotence": True,
        "linger.ms": 0,
        "message.timeout.ms": max(int(timers.dead_after * 1000), 1000),
    }


def _flag(value: object, name: str) -> bool:
    flags = {True: True, False: False, "true": True, "false": False}
    key = value.lower() if isinstance(value, str) else value
    if isinstance(key, (bool, str)) and key in flags:
        return flags[key]
    raise SettingError(f"{name}: expected true or false, got {value!r}")


def _milliseconds(value: object, name: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 0:
        raise SettingError(f"{name}: expected milliseconds, got {value!r}")
    return number
