"""Requests of a member of classic groups and their responses, in Kafka's bytes. Pure.

Each request is of one fixed version, the newest before Kafka's flexible encoding where there is
one: brokers from 2.4 on take them. Fields stand in the order of the protocol; `read` raises
`WireError` for bytes that do not fit.
Source: the message definitions of Apache Kafka.
"""

# ruff: noqa: D102 - every request has the same three: body (its fields), read (its response's).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from levelwind.assignors.clients.group_join import Joiner
from levelwind.assignors.protocol.kafka.types import (
    Reader,
    array,
    int16,
    int32,
    nullable_bytes,
    nullable_string,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_ERROR = 0
COORDINATOR_LOADING = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
GROUP_AUTHORIZATION_FAILED = 30
UNSUPPORTED_VERSION = 35
GROUP_ID_NOT_FOUND = 69
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82

ELSEWHERE = frozenset({COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
"""Errors of a broker that does not coordinate the group, or not yet."""

CONSUMER = "consumer"
"""Protocol type of groups of consumers."""


class ApiVersionsResponse(NamedTuple):
    """Versions of requests that a broker takes."""

    error: int
    versions: Mapping[int, tuple[int, int]]
    """Oldest and newest version, by key of the request."""


class SaslHandshakeResponse(NamedTuple):
    """SASL mechanisms of a broker."""

    error: int
    mechanisms: tuple[str, ...]


class SaslAuthenticateResponse(NamedTuple):
    """Step of the broker in a SASL exchange."""

    error: int
    message: str | None
    token: bytes


class JoinResponse(NamedTuple):
    """Outcome of the first phase of a rebalance."""

    error: int
    generation: int
    protocol: str
    leader: str
    member_id: str
    joiners: tuple[Joiner, ...]
    """Members of the group; empty unless this member leads."""


class SyncResponse(NamedTuple):
    """Outcome of the second phase of a rebalance."""

    error: int
    assignment: bytes


class HeartbeatResponse(NamedTuple):
    """State of the group for this member."""

    error: int


class LeaveResponse(NamedTuple):
    """Outcome of leaving."""

    error: int


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    """Question for the versions that a broker takes."""

    KEY: ClassVar = 18
    VERSION: ClassVar = 0

    def body(self) -> bytes:
        return b""

    def read(self, fields: Reader) -> ApiVersionsResponse:
        error = fields.int16()
        versions = fields.array(
            lambda: (fields.int16(), (fields.int16(), fields.int16())), min_bytes=6
        )
        return ApiVersionsResponse(error, dict(versions))


@dataclass(frozen=True, slots=True)
class SaslHandshakeRequest:
    """Beginning of a SASL exchange."""

    KEY: ClassVar = 17
    VERSION: ClassVar = 1

    mechanism: str

    def body(self) -> bytes:
        return string(self.mechanism)

    def read(self, fields: Reader) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(fields.int16(), fields.array(fields.string, min_bytes=2))


@dataclass(frozen=True, slots=True)
class SaslAuthenticateRequest:
    """Step of the client in a SASL exchange."""

    KEY: ClassVar = 36
    VERSION: ClassVar = 1

    token: bytes

    def body(self) -> bytes:
        return nullable_bytes(self.token)

    def read(self, fields: Reader) -> SaslAuthenticateResponse:
        error, message = fields.int16(), fields.nullable_string()
        return SaslAuthenticateResponse(error, message, fields.nullable_bytes() or b"")


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """First phase of a rebalance: the member asks to be in the next generation."""

    KEY: ClassVar = 11
    VERSION: ClassVar = 5

    group: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    """Empty at the first time, and of a static member that has come back."""
    instance_id: str
    """The name of the static member, by which the brokers know it when it comes back (KIP-345)."""
    protocols: tuple[tuple[str, bytes], ...]
    """Protocols by preference, with the subscription of each."""

    def body(self) -> bytes:
        return (
            string(self.group)
            + int32(self.session_timeout_ms)
            + int32(self.rebalance_timeout_ms)
            + string(self.member_id)
            + nullable_string(self.instance_id)
            + string(CONSUMER)
            + array([string(name) + nullable_bytes(raw) for name, raw in self.protocols])
        )

    def read(self, fields: Reader) -> JoinResponse:
        fields.int32()  # throttle time
        error, generation = fields.int16(), fields.int32()
        protocol, leader, member_id = fields.string(), fields.string(), fields.string()

        def joiner() -> Joiner:
            name, instance_id = fields.string(), fields.nullable_string()
            offers = {protocol: fields.nullable_bytes() or b""}
            return Joiner(id=name, instance_id=instance_id, offers=offers)

        joiners = fields.array(joiner, min_bytes=8)
        return JoinResponse(error, generation, protocol, leader, member_id, joiners)


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Second phase of a rebalance: the leader gives the assignment, everybody takes theirs."""

    KEY: ClassVar = 14
    VERSION: ClassVar = 3

    group: str
    generation: int
    member_id: str
    instance_id: str
    assignments: Mapping[str, bytes]
    """Assignment by member id; empty unless this member leads."""

    def body(self) -> bytes:
        assignments = [string(m) + nullable_bytes(raw) for m, raw in self.assignments.items()]
        return _membership(self) + array(assignments)

    def read(self, fields: Reader) -> SyncResponse:
        fields.int32()  # throttle time
        return SyncResponse(fields.int16(), fields.nullable_bytes() or b"")


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """Sign of life of a member."""

    KEY: ClassVar = 12
    VERSION: ClassVar = 3

    group: str
    generation: int
    member_id: str
    instance_id: str

    def body(self) -> bytes:
        return _membership(self)

    def read(self, fields: Reader) -> HeartbeatResponse:
        fields.int32()  # throttle time
        return HeartbeatResponse(fields.int16())


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """End of a membership."""

    KEY: ClassVar = 13
    VERSION: ClassVar = 3

    group: str
    member_id: str
    """Empty for a static member, which its name is enough for."""
    instance_id: str | None = None
    """The name of a static member."""

    def body(self) -> bytes:
        member = string(self.member_id) + nullable_string(self.instance_id)
        return string(self.group) + array([member])

    def read(self, fields: Reader) -> LeaveResponse:
        fields.int32()  # throttle time
        return LeaveResponse(fields.int16())


class Request(Protocol):
    """A request with its fields in bytes, and the reader of its response."""

    @property
    def KEY(self) -> int:  # noqa: N802 - a constant of each class
        """The request's kind."""

    @property
    def VERSION(self) -> int:  # noqa: N802 - as above
        """The version of its bytes."""

    def body(self) -> bytes: ...
    def read(self, fields: Reader) -> object: ...


def encode_request(request: Request, correlation: int, client_id: str) -> bytes:
    """A request with its header and its length, as it is sent."""
    flexible = getattr(request, "FLEXIBLE", False)
    head = int16(request.KEY) + int16(request.VERSION) + int32(correlation) + string(client_id)
    framed = head + (b"\0" if flexible else b"") + request.body()
    return int32(len(framed)) + framed


def response_fields(request: Request, fields: Reader) -> Reader:
    """The reader behind a response's header, of which the correlation id was read."""
    if getattr(request, "FLEXIBLE", False):
        fields.tags()
    return fields


def _membership(request: SyncRequest | HeartbeatRequest) -> bytes:
    """The fields by which a request names a static member."""
    group, member = string(request.group), string(request.member_id)
    return group + int32(request.generation) + member + nullable_string(request.instance_id)
