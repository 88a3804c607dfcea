"""State of the proxy in one group, its events and its effects: values without I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from levelwind.daemon.proxy.succession import NO_MEMBERS, MapOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records import TopicRecord
    from levelwind.daemon.proxy.settings import ProxySettings
    from levelwind.daemon.wire.group_requests import Request

NEVER = math.inf


class ProxyPhase(StrEnum):
    """Step of the protocol that the proxy is at."""

    AWAY = "away"
    """Not in the group, without a connection."""
    CONNECTING = "connecting"
    DESCRIBING = "describing"
    """Connected, not in the group: it asks what the group is."""
    RESUMING = "resuming"
    """Connected again: it asks by a heartbeat whether it is still a member."""
    JOINING = "joining"
    SYNCING = "syncing"
    SURVEYING = "surveying"
    """Member of the current generation, whose leader the coordinator named by another member id:
    the proxy asks who is in the group."""
    STABLE = "stable"
    """Member of the current generation."""
    CARRYING = "carrying"
    """In a KIP-848 group, whose coordinator assigns: its members carry the plan in their rack
    ids."""
    ENDED = "ended"


class Standing(StrEnum):
    """Relation of the proxy to a group, for operators."""

    WAITS_FOR_PLAN = "waiting for a plan"
    WAITS_FOR_MEMBERS = "waiting for members"
    JOINS = "joining"
    WAITS_FOR_LEAD = "waiting for the lead"
    LEADS = "leading"
    REFUSED = "refused"
    """The group is none that can be led by a proxy."""
    BACKS_OFF = "backing off"
    """The proxy left, since something was unexpected."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyContext:
    """Name, settings and layouts, which all groups share."""

    instance_id: str
    """`group.instance.id` of the proxy: the same in every daemon of an installation."""
    settings: ProxySettings
    layouts: Mapping[str, TopicRecord]
    """The layouts of topics that the daemon knows, by name."""


class LedMember(NamedTuple):
    """Member of a generation that the proxy leads."""

    topics: tuple[str, ...]
    """Topics that it subscribes to."""
    rack: str | None
    share: Partitions
    """Partitions that it was given, with those that are withheld for a round."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """Member of a KIP-848 group that carries a part of the plan, and reads nothing."""

    member_id: str
    """The same in every daemon of an installation."""
    epoch: int
    """The member's, by the last answer; `JOINING` before the first one."""
    awaits_answer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyState:
    """All that the proxy knows of one group."""

    group: str
    phase: ProxyPhase = ProxyPhase.AWAY
    standing: Standing = Standing.WAITS_FOR_PLAN
    reason: str = ""
    """Why the group is refused or was left, or why the lead may not come; else empty."""
    wake_at: float = NEVER
    """Time at which `Woken` is due."""
    plan: PublishedPlan | None = None
    """The newest plan."""

    # Membership.
    member_id: str = ""
    """Empty while the proxy is no member, and while the coordinator gives it a new id."""
    order: MapOrder = NO_MEMBERS
    """Order of the members that may succeed the leader, when the proxy last asked who they are."""
    draws: int = 0
    """Member ids that it has asked for in `generation`, beside the first."""
    generation: int = -1
    settled: bool = False
    """Whether the proxy synchronised in `generation`, and knows whether it leads."""
    leader: str = ""
    """Member id of the leader in `generation`, as the coordinator named it."""
    joined_at: float = NEVER
    """Time since which the proxy is in the group."""
    answer_until: float = NEVER
    """Time by which the question that is under way must be answered; `NEVER` without any."""

    carriers: tuple[Carrier, ...] = ()
    """The proxy's members of a KIP-848 group."""
    brokers_asked: bool = False
    """Whether all brokers have the assignor, as they said on this connection."""
    brisk_until: float = -math.inf
    """Time until which the carriers' heartbeats come fast, since a plan is to take effect."""

    # The last dictation.
    shares: Mapping[str, Partitions] = field(default_factory=dict)
    """Partitions by the members' names."""
    epoch: PlanEpoch | None = None
    """Epoch of the plan in it."""
    layouts: Mapping[str, TopicRecord] = field(default_factory=dict)
    """Layouts of the topics in it."""
    led: Mapping[str, LedMember] | None = None
    """Members that the proxy leads, by name; None while it does not lead."""
    withheld_rounds: int = 0
    """Dictations in a row that withheld partitions."""
    rejoin_at: float = NEVER
    """Time at which the group is asked for the next round."""

    failures: int = 0
    """Times in a row that the proxy left since something was unexpected."""
    lost_connections: int = 0
    """Connections in a row that were lost or could not be opened."""
    versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Oldest and newest version of the requests that the coordinator takes, by key."""

    @property
    def leads(self) -> bool:
        """Whether the proxy leads the group in `generation`, or the group goes by its plan."""
        return self.led is not None

    @property
    def farewell(self) -> Depart:
        """The effect that leaves the group by each membership."""
        return Depart(self.member_id, tuple(carrier.member_id for carrier in self.carriers))


# Events.


@dataclass(frozen=True, slots=True)
class Woken:
    """The time `wake_at` has come."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection to the group's coordinator is open."""

    versions: Mapping[int, tuple[int, int]]
    """Oldest and newest version of the requests that the coordinator takes, by key."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection was lost, or could not be opened."""

    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The coordinator answered a request."""

    response: object


@dataclass(frozen=True, slots=True)
class BrokersAnswered:
    """The brokers have told which assignors they have."""

    lacking: tuple[int, ...]
    """Brokers without the one that follows plans."""
    unknown: str = ""
    """Why that is not known; else empty."""


@dataclass(frozen=True, slots=True)
class PlanArrived:
    """A newer plan was published; None: the group has none any more."""

    plan: PublishedPlan | None


@dataclass(frozen=True, slots=True)
class Broken:
    """A fault of the proxy itself, while it handled an event."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The daemon ends, or leads no more."""


ProxyEvent: TypeAlias = (
    Woken | Connected | Disconnected | Answered | BrokersAnswered | PlanArrived | Broken | Stopped
)


# Effects.


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection to the group's coordinator; `Connected` or `Disconnected` follows."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; `Answered` follows, or `Disconnected`."""

    request: Request


@dataclass(frozen=True, slots=True)
class AskBrokers:
    """Ask all brokers whether they have the assignor; `BrokersAnswered` follows."""


@dataclass(frozen=True, slots=True)
class Depart:
    """Leave the group if a member id is given, and close the connection; nothing follows."""

    member_id: str
    """Empty where the membership is to outlive the connection, or is none."""
    carriers: tuple[str, ...] = ()
    """Member ids of the carriers that leave, too."""


class ProxyLog(NamedTuple):
    """An event for the log, with its fields."""

    event: str
    fields: Mapping[str, object]


ProxyEffect: TypeAlias = Connect | Send | AskBrokers | Depart | ProxyLog
