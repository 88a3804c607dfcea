"""Question for a setting of a broker and its response, in Kafka's bytes. Pure.

Source: DescribeConfigsRequest.json and DescribeConfigsResponse.json of Apache Kafka.
"""

# ruff: noqa: D102 - as in `group_requests`: body (the request's fields), read (its response's).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from levelwind.assignors.protocol.kafka.types import array, string

if TYPE_CHECKING:
    from levelwind.assignors.protocol.kafka.types import Reader

BROKER = b"\4"
"""Kind of the resource whose settings are asked for."""
_SYNONYM_BYTES = 5


class BrokerSetting(NamedTuple):
    """A setting of a broker, as it answers."""

    error: int
    value: str | None
    """None where the broker does not know the setting, or does not tell."""


@dataclass(frozen=True, slots=True)
class BrokerSettingRequest:
    """Question for one setting of the broker that is asked.

    Needs DESCRIBE_CONFIGS on the cluster.
    """

    KEY: ClassVar = 32
    VERSION: ClassVar = 1

    broker: int
    name: str

    def body(self) -> bytes:
        return array([BROKER + string(str(self.broker)) + array([string(self.name)])]) + b"\0"

    def read(self, fields: Reader) -> BrokerSetting:
        fields.int32()  # throttle time
        values: dict[str, str | None] = {}

        def synonym() -> None:
            fields.string()
            fields.nullable_string()
            fields.int8()  # source

        def entry() -> None:
            name = fields.string()
            values[name] = fields.nullable_string()
            for _ in ("read only", "source", "sensitive"):
                fields.int8()
            fields.array(synonym, min_bytes=_SYNONYM_BYTES)

        def result() -> int:
            error = fields.int16()
            fields.nullable_string()  # message
            fields.int8()  # kind
            fields.string()  # broker
            fields.array(entry, min_bytes=11)
            return error

        (error,) = fields.array(result, min_bytes=11) or (0,)
        return BrokerSetting(error, values.get(self.name))
