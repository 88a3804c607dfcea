"""Models of the API's documents: the source of its OpenAPI document.

Documents are written from plain dictionaries, since one may have lists of ten thousand partitions;
the tests hold every document against its model.
"""

from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from levelwind.daemon.shown_groups.offset_rows import OffsetRow

Count = Annotated[int, Field(ge=0)]
Milliseconds = Annotated[int, Field(ge=0, description="Milliseconds since the epoch.")]
Mode = Literal["managed", "published", "proxy", "advisory", "watched"]
Scores = dict[str, float | None]


class Document(BaseModel):
    """A document whose fields are all listed."""

    model_config = ConfigDict(extra="forbid")


class ErrorDocument(Document):
    """Why a request was refused, and what to do."""

    error: str


class HealthDocument(Document):
    """The process answers."""

    status: Literal["ok"]


class StatusDocument(Document):
    """The daemon: whether it leads, and whether it is ready."""

    instance: str
    version: str
    role: Literal["starting", "standby", "leader"]
    caught_up: bool = Field(description="Whether its topics were read to the end.")
    ready: bool
    planner_epoch: Count | None
    leader: str | None = Field(description="The daemon that leads, as far as this one knows.")
    frozen: dict[str, str] = Field(description="Why no group is planned, by reason.")
    frozen_groups: dict[str, dict[str, str]] = Field(
        description="Groups that are frozen for reasons of their own, by name and reason."
    )
    levers: bool = Field(description="Whether levers are open to the holders of tokens.")


class PlannedShare(Document):
    """Partitions of a plan, and those that their planned member owns."""

    partitions: Count
    as_planned: Count


class GroupSummary(Document):
    """A group's line of the table of groups."""

    group: str
    mode: Mode
    strategy: str | None
    group_epoch: Count | None
    members: Count
    topics: Count
    left_topics: list[str] = Field(
        description="Topics that the group has committed in and that no member reads."
    )
    partitions: Count
    unclaimed: Count = Field(description="Partitions that nobody claims.")
    lag: Count | None = Field(
        description="Records behind, over the partitions whose lag is known; null where none is."
    )
    unknown: Count = Field(description="Partitions whose lag is not known, and is in no sum.")
    lag_at: Milliseconds | None
    longest_wait_seconds: float | None = Field(
        description="Longest time for which a record has been waiting."
    )
    wait_lower_bounds: Count = Field(
        description="Partitions whose records may have waited for longer than is known: with any, "
        "the longest wait is a lower bound."
    )
    drain_seconds: float | None = Field(
        description="Time to drain: seconds that the most loaded member needs."
    )
    best_drain_seconds: float | None = Field(description="The least under any plan.")
    skew: float | None
    cross_rack: float | None = Field(description="Share of partitions read from another rack.")
    moving: Count = Field(description="Partitions that are being handed over.")
    plan_id: str | None
    planned_at: Milliseconds | None
    planned: PlannedShare | None = Field(
        description="How far the group is as planned, if it subscribes and has a plan."
    )
    triggers: list[str]
    unwritten: list[str] = Field(
        description="Records that are not published, since their topic has no room for them."
    )


class GroupList(Document):
    """A page of the table of groups."""

    version: Count
    total: Count = Field(description="Groups that match, on all pages.")
    groups: list[GroupSummary]


class PlanDocument(Document):
    """A plan: its cause, its scores and its certificate."""

    plan_id: str
    group: str
    mode: Mode
    strategy: str
    cause: str
    at: Milliseconds
    planner_epoch: Count
    group_epoch: Count
    lag_at: Milliseconds | None
    before: Scores | None
    after: Scores | None
    certificate: dict[str, Any] | None


class MemberDocument(Document):
    """A member of a group."""

    instance: str
    incarnation: str
    state: str
    rack: str | None
    capacity: float | None
    partitions: Count
    owned: dict[str, str] = Field(description="Partitions that it owns, by topic.")
    planned: dict[str, str] | None = Field(
        description="Partitions that the plan gives it, if the group subscribes and has a plan."
    )
    lag: Count | None
    unknown: Count = Field(description="Its partitions whose lag is not known.")
    load_seconds: float | None
    speed: float | None
    assigned: dict[str, str] = Field(description="Partitions that it was granted, by topic.")
    pending: dict[str, str] = Field(description="Partitions that it waits for, by topic.")
    revoking: dict[str, str] = Field(description="Partitions that it gives up, by topic.")
    member_epoch: Count | None
    acked_epoch: Count | None


class TopicOfGroup(Document):
    """A topic of a group; lists are indexed by partition."""

    topic: str
    partitions: Count
    left: bool = Field(
        description="Whether the group has committed in the topic and no member reads it: no lag."
    )
    at: Milliseconds
    total_lag: Count | None
    longest_wait_seconds: float | None
    committed: list[Count | None]
    end: list[Count | None]
    lag: list[Count | None] = Field(description="Null where the lag is not known.")
    seconds: list[float | None] | None
    rate: list[float | None] | None
    owner: list[int] = Field(description="Index in `member`; -1 without an owner.")
    planned: list[int] | None = Field(description="The planned owner, if the group subscribes.")
    local: list[bool | None] = Field(description="Whether the owner's rack has a replica.")
    racks: list[Count] = Field(description="Index in `rack_sets`.")
    moving: list[Count] = Field(description="Partitions that are being handed over.")
    unclaimed: list[Count] = Field(description="Partitions that nobody claims.")
    unknown: list[Count] = Field(description="Partitions whose lag is not known.")
    upper_bound: list[Count] = Field(description="Partitions whose lag is an upper bound.")
    seconds_lower_bound: list[Count] = Field(
        description="Partitions whose `seconds` is a lower bound."
    )


class GroupDocument(GroupSummary):
    """Everything about a group."""

    members_wanted: Count | None = Field(
        description="Members that the group wants; null where this daemon does not lead."
    )
    load: dict[str, Any] | None
    cross_rack_shares: dict[str, float | None]
    leader_only_brokers: list[int]
    proxy: str | None
    plan: PlanDocument | None
    evidence: dict[str, dict[str, Any]]
    member: list[MemberDocument]
    topic: list[TopicOfGroup]
    rack_sets: list[list[str]]


OffsetRowDocument = create_model(
    "OffsetRowDocument",
    __base__=Document,
    __doc__="A row of `kafka-consumer-groups --describe`, with rack, locality and waiting time.",
    **{name: (column, ...) for name, column in get_type_hints(OffsetRow).items()},  # type: ignore[call-overload]
)


class OffsetList(Document):
    """A row for each partition that somebody owns or has committed, and for each idle member."""

    offsets: list[OffsetRowDocument]  # type: ignore[valid-type]


class GroupHistory(Document):
    """Points of a group, at the times of the document."""

    lag: list[Count | None]
    drain_seconds: list[float | None]


class HistoryDocument(Document):
    """Lag and time to drain over time, as this daemon has seen them since its start."""

    interval_seconds: float
    at: list[Milliseconds]
    groups: dict[str, GroupHistory]


class BrokerDocument(Document):
    """A broker, with what it leads and holds of the topics that are known."""

    broker: int
    rack: str | None
    online: bool
    follower_fetching: bool | None
    at: Milliseconds
    leads: Count
    replicas: Count
    out_of_sync: Count = Field(description="Its replicas that are not in sync.")


class RackDocument(Document):
    """A rack: its brokers, and its members in all groups."""

    rack: str | None
    brokers: list[int]
    members: Count
    leads: Count


class ClusterDocument(Document):
    """Brokers and racks."""

    version: Count
    topics: Count
    partitions: Count
    leaderless: Count
    brokers: list[BrokerDocument]
    racks: list[RackDocument]


class PipelineDocument(Document):
    """What the pipeline has read, and how it does."""

    up: bool | None = Field(description="Null where this daemon does not know: it stands by.")
    record: dict[str, Any] | None = Field(
        description="The last record of a pipeline that runs by itself."
    )
    figures: dict[str, float] = Field(
        description="Its metrics, by name; without those that this daemon does not know."
    )
    rejected: dict[str, float] = Field(description="Empty where this daemon does not know.")
    skipped: dict[str, float] = Field(description="Empty where this daemon does not know.")
    inputs: dict[str, Count] = Field(description="Offset read up to, by topic/partition.")
    oldest_lag_at: Milliseconds | None
    newest_lag_at: Milliseconds | None
    samples: Count = Field(description="Samples of lag: one for each group and topic.")
