"""Settings of the librdkafka clients: the user's, and those of the hand-over."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

from confluent_kafka import IsolationLevel, libversion

from levelwind.assignors.clients.deleted_topics import NEVER_CREATES
from levelwind.assignors.clients.flat_settings import DEFAULT_TOPIC_CONFIG
from levelwind.assignors.clients.idle_connections import with_idle_connections
from levelwind.assignors.handover.member_state import MemberMachine, MemberProfile
from levelwind.assignors.protocol import transactional_ids
from levelwind.assignors.protocol.declared.fields import LEAST_CAPACITY, MOST_CAPACITY
from levelwind.assignors.protocol.patterns.topic_pattern import pattern_refusal
from levelwind.assignors.protocol.records import Rejection, WireError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from levelwind.assignors.handover.timers import Timers

Fencing: TypeAlias = Literal["none", "broker"]
"""Who refuses the commits of a former owner: nobody, or the brokers."""

RENEW_COMMITS_SECONDS = 3600.0
"""Far below what brokers have for `offsets.retention.minutes` and `transactional.id.expiration.ms`:
seven days by default."""
MOST_RENEW_SECONDS = 604_800.0

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
    "transactional.id": "give `fencing`",
}
# Prefixes of connection settings, which the clients of the hand-over get as well.
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
    "connections.max.idle.",
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
    """Settings of the clients, and of what `ManagedConsumer` does itself."""

    consumer: dict[str, Any]
    reader: dict[str, Any]
    admin: dict[str, Any]
    producer: dict[str, Any]
    transactions: dict[str, Any] | None
    """Settings of the producer that commits; None without broker fencing."""
    question_timeout: float
    """Seconds after which an unanswered question for the log's end has failed."""
    auto_commit: bool
    """Whether processed offsets are committed without the application's `commit`."""
    auto_store: bool
    """Whether a record counts as processed when the application asks for the next one."""
    commit_interval: float
    """Seconds between two automatic commits."""
    renew_commits: float
    """Seconds after which a commit is made again where no other one was."""
    max_poll_interval: float
    """Seconds that the application may stay away from `poll`."""
    pins_latest: IsolationLevel | None
    """Isolation level at whose end a partition without a commit starts, which is committed at once;
    None: such a partition is left to librdkafka."""
    on_commit: Callable[..., object] | None
    """The user's callback for the outcome of commits."""

    def with_throttle_callback(self, callback: Callable[[Any], None]) -> ClientSettings:
        """Return settings whose clients report the delays of client quotas.

        The consumer's are reported to the application as well, where it has a callback. Those of
        commits in transactions are not: nothing polls their producer.
        """
        application = self.consumer.get("throttle_cb")

        def both(event: Any) -> None:
            callback(event)
            if application is not None:
                application(event)

        return replace(
            self,
            consumer={**self.consumer, "throttle_cb": both},
            reader={**self.reader, "throttle_cb": callback},
            producer={**self.producer, "throttle_cb": callback},
        )


def member_profile(
    config: Mapping[str, Any],
    *,
    group: str,
    topics: Sequence[str],
    instance: str | None,
    rack: str | None,
    priority: int,
    capacity: float,
    fencing: Fencing,
    prefix: str,
) -> MemberProfile:
    """What the member announces in each of its lives, by the user's settings, which are flat.

    An empty instance or rack counts as none, as an unset variable of the environment may give it.

    Raises:
        SettingError: An argument makes no sense.
    """
    if isinstance(topics, str) or not topics or not all(map(_is_name, topics)):
        raise SettingError(f"topics: expected a list of names, got {topics!r}")
    patterns = sorted({topic for topic in topics if topic.startswith("^")})
    pattern = "|".join(patterns) or None
    for text in (*patterns, pattern):
        if refusal := pattern_refusal(text):
            raise SettingError(f"topics: {text!r}: {refusal}")
    if not group:
        raise SettingError("group must be named")
    for argument, name in (("group", group), ("instance", instance), ("rack", rack)):
        if not isinstance(name, (str, type(None))):
            raise SettingError(f"{argument}: expected a text, got {name!r}")
    if fencing not in ("none", "broker"):
        raise SettingError(f'fencing: expected "none" or "broker", got {fencing!r}')
    isolation = str(config.get("isolation.level", "read_committed"))
    if fencing == "broker" and isolation != "read_committed":
        raise SettingError(
            "isolation.level: broker fencing needs read_committed, or a new owner starts below "
            "a commit that is being carried out"
        )
    instance = instance or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"
    return MemberProfile(
        group=group,
        instance=instance,
        topics=tuple(sorted(set(topics) - set(patterns))),
        pattern=pattern,
        rack=rack or None,
        priority=member_priority(priority),
        capacity=member_capacity(capacity),
        client="confluent-kafka",
        client_version=libversion()[0],
        max_poll_interval=_poll_interval(config) / 1000,
        transactional_id=transactional_ids.of_member(prefix, group, instance)
        if fencing == "broker"
        else None,
    )


def _is_name(topic: object) -> bool:
    return isinstance(topic, str) and topic != ""


def first_life(profile: MemberProfile, timers: Timers) -> MemberMachine:
    """Return the member at the beginning of its first life.

    Raises:
        SettingError: The daemon would reject its announcements, and never grant it anything.
    """
    member = MemberMachine.create(profile=profile, timers=timers, incarnation=uuid4().hex)
    try:
        read = decode("members", *encode(member.record("joining")))
    except WireError as error:
        read = Rejection(str(error))
    if isinstance(read, Rejection):
        raise SettingError(f"the daemon cannot read what this member announces: {read.reason}")
    return member


def member_capacity(capacity: float) -> float:
    """Return a capacity that can be announced.

    Raises:
        SettingError: It cannot.
    """
    if isinstance(capacity, (int, float)) and LEAST_CAPACITY <= capacity <= MOST_CAPACITY:
        return float(capacity)
    raise SettingError(
        f"capacity: expected {LEAST_CAPACITY:g} to {MOST_CAPACITY:g}, got {capacity!r}"
    )


def member_priority(priority: int) -> int:
    """Return a priority that can be announced.

    Raises:
        SettingError: It cannot.
    """
    if isinstance(priority, int) and -(2**31) <= priority < 2**31:
        return int(priority)
    raise SettingError(f"priority: expected an integer of 32 bits, got {priority!r}")


def client_settings(
    config: Mapping[str, Any],
    *,
    profile: MemberProfile,
    timers: Timers,
    renew_commits: float = RENEW_COMMITS_SECONDS,
) -> ClientSettings:
    """Divide the user's settings among the clients.

    Raises:
        SettingError: A setting belongs to the hand-over, or its value makes no sense.
    """
    given = with_idle_connections(config)
    if DEFAULT_TOPIC_CONFIG in given:
        kind = type(given[DEFAULT_TOPIC_CONFIG]).__name__
        raise SettingError(f"{DEFAULT_TOPIC_CONFIG}: expected a table of settings, got {kind}")
    for name in given:
        if name in RESERVED_SETTINGS:
            raise SettingError(f"{name} cannot be set here: {RESERVED_SETTINGS[name]}")
    connection = {
        name: value for name, value in given.items() if name.startswith(CONNECTION_PREFIXES)
    }
    auto_commit = _flag(given.pop("enable.auto.commit", True), "enable.auto.commit")
    auto_store = _flag(given.pop("enable.auto.offset.store", True), "enable.auto.offset.store")
    commit_interval = _milliseconds(
        given.pop("auto.commit.interval.ms", 5000), "auto.commit.interval.ms"
    )
    poll_interval = _poll_interval(given)
    on_commit = given.pop("on_commit", None)
    # A connection on which nothing comes back is given up while the lease lasts.
    patience = max(int(timers.hold * 1000 / 4), 10)
    return ClientSettings(
        consumer=_consumer(given, poll_interval, profile=profile, timers=timers),
        reader=_reader(connection, patience, group=profile.group),
        admin={**connection, "socket.timeout.ms": patience, **NEVER_CREATES},
        producer=_producer(connection, patience, timers),
        transactions=_transactions(connection, profile, timers),
        question_timeout=patience / 1000,
        auto_commit=auto_commit,
        auto_store=auto_store,
        commit_interval=commit_interval / 1000,
        renew_commits=_renewal(renew_commits),
        max_poll_interval=poll_interval / 1000,
        pins_latest=_isolation(given) if auto_commit and _from_latest(given) else None,
        on_commit=on_commit,
    )


def _consumer(
    given: Mapping[str, Any], poll_interval: int, *, profile: MemberProfile, timers: Timers
) -> dict[str, Any]:
    # librdkafka holds a commit back while it has no coordinator, up to the session timeout, and
    # retries it once: two of each take `timers.commit`.
    bound = max(int(timers.commit * 1000 / 4), 10)
    # A new partition is fetched only after the fetch that waits at its broker has come back.
    fetch_wait = _milliseconds(given.get("fetch.wait.max.ms", 200), "fetch.wait.max.ms")
    return {
        **({"client.rack": profile.rack} if profile.rack is not None else {}),
        **given,
        "session.timeout.ms": bound,
        "socket.timeout.ms": bound,
        "heartbeat.interval.ms": max(bound // 3, 1),
        "fetch.wait.max.ms": min(fetch_wait, bound // 2),
        "group.id": profile.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "max.poll.interval.ms": max(poll_interval, bound),
    }


def _reader(connection: Mapping[str, Any], patience: int, *, group: str) -> dict[str, Any]:
    return {
        **connection,
        # librdkafka requires a group, and the user has the right to this one; nothing is committed.
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "socket.timeout.ms": patience,
        # The end of the log shows when a fetch comes back empty.
        "fetch.wait.max.ms": min(patience // 4, 500),
    }


def _producer(connection: Mapping[str, Any], patience: int, timers: Timers) -> dict[str, Any]:
    return {
        **connection,
        "enable.idempotence": True,
        "linger.ms": 0,
        "socket.timeout.ms": patience,
        **NEVER_CREATES,
        "message.timeout.ms": max(int(timers.dead_after * 1000), 1000),
    }


def _transactions(
    connection: Mapping[str, Any], profile: MemberProfile, timers: Timers
) -> dict[str, Any] | None:
    if profile.transactional_id is None:
        return None
    return {
        **connection,
        "transactional.id": profile.transactional_id,
        # A transaction lasts for a commit. One that its producer left open keeps the next owner
        # from reading the group's offsets, so the brokers end it soon.
        "transaction.timeout.ms": max(int(timers.commit * 1000), 1000),
        # As long as one call may wait: what was sent and not answered is not sent again.
        "socket.timeout.ms": max(int(timers.commit * 1000 / 2), 10),
    }


def _word(given: Mapping[str, Any], name: str, default: str) -> str:
    """Return a word as librdkafka reads it: blanks before it and capitals make no difference."""
    return str(given.get(name, default)).lower().lstrip()


def _from_latest(given: Mapping[str, Any]) -> bool:
    return _word(given, "auto.offset.reset", "latest") in ("latest", "largest", "end")


def _isolation(given: Mapping[str, Any]) -> IsolationLevel:
    committed = _word(given, "isolation.level", "read_committed") == "read_committed"
    return IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED


def _renewal(seconds: float) -> float:
    if isinstance(seconds, (int, float)) and 0 < seconds <= MOST_RENEW_SECONDS:
        return float(seconds)
    raise SettingError(
        f"renew_commits: expected above 0 and up to {MOST_RENEW_SECONDS:g} seconds, got {seconds!r}"
    )


def _poll_interval(config: Mapping[str, Any]) -> int:
    return _milliseconds(config.get("max.poll.interval.ms", 300_000), "max.poll.interval.ms")


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
