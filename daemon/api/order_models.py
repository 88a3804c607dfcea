"""Models of orders, levers and decisions in the API's OpenAPI document."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from levelwind.daemon.api.wire_models import Document, Milliseconds, Scores
from levelwind.daemon.levers.orders import OrderAction

Name = Annotated[str, Field(max_length=1_000)]


class OrderRequest(Document):
    """An order of an operator; without `execute` a dry run that changes nothing."""

    action: OrderAction
    group: Name = Field(description="The group; `*` for all, where the action allows it.")
    subject: Name = Field(
        default="",
        description="TOPIC/N of a pin, member of a drain, rack of an evacuation, plan.",
    )
    value: Name = Field(default="", description="Member of a pin; strategy, empty for the file's.")
    target: dict[Name, dict[Name, Annotated[str, Field(max_length=1_000_000)]]] | None = Field(
        default=None, description="Of `apply`: ranges of partitions, by member and topic."
    )
    reason: Name = Field(default="", description="Why, for the audit trail.")
    execute: bool = False


class LeverDocument(Document):
    """A lever in force."""

    group: str
    kind: str
    subject: str | None
    setting: str | None
    at: Milliseconds
    by: str
    reason: str


class LeverList(Document):
    """The levers in force."""

    levers: list[LeverDocument]


class OutcomeDocument(Document):
    """What an order changes, or would change."""

    order: dict[str, Any]
    executed: bool
    before: list[LeverDocument]
    after: list[LeverDocument]
    preview: dict[str, Any] | None = Field(description="The plan that follows, if one does.")
    notes: list[str]


class SettingDocument(Document):
    """A setting in force; the value of a secret is masked."""

    path: str
    value: Any


class SettingList(Document):
    """The settings in force, and those that levers override."""

    settings: list[SettingDocument]
    overrides: list[dict[str, Any]]


class MoveDocument(Document):
    """A partition that is with another member in one plan than in the other."""

    topic: str
    partition: int
    from_: str | None = Field(alias="from")
    to: str | None
    lag: int | None


class MoveList(Document):
    """The differences between two assignments."""

    moves: list[MoveDocument]


class DecisionDocument(Document):
    """A decision of the planner, or an order of an operator."""

    model_config = ConfigDict(extra="allow")

    group: str
    id: str
    at: Milliseconds
    outcome: str
    cause: str
    plan_id: str | None
    kind: str
    before: Scores | None = None
    after: Scores | None = None
    certificate: dict[str, Any] | None = None


class DecisionList(Document):
    """Decisions, the newest first."""

    decisions: list[DecisionDocument]


class ReplayDocument(Document):
    """A recorded plan beside the one that its recorded inputs give now."""

    group: str
    id: str
    plan_id: str | None
    identical: bool
    moved_otherwise: int
    differences: dict[str, Any]
    note: str
