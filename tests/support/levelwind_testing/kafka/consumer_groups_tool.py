"""What `kafka-consumer-groups.sh` of the brokers' version says of a group."""

import subprocess
from dataclasses import dataclass

from levelwind_testing.kafka.kafka_tool import kafka_tool

MAIN = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SECONDS = 120
"""Time for one run of the tool."""


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A partition of a group; None: the tool shows "-"."""

    committed: int | None
    end: int | None
    lag: int | None
    owner: str | None
    host: str | None = None
    client_id: str | None = None


def describe_group(bootstrap: str, group: str) -> dict[tuple[str, int], ToolRow]:
    """The rows that the tool prints of a group, by topic and partition."""
    asked = ("--describe", "--group", group, "--timeout", str(SECONDS * 1000))
    command = kafka_tool(MAIN, bootstrap, *asked)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    lines = [line.split() for line in done.stdout.splitlines()]
    header = next((line for line in lines if line[:1] == ["GROUP"]), None)
    assert header is not None, f"{done.stdout}\n{done.stderr}"
    rows = [dict(zip(header, line, strict=False)) for line in lines if line[:1] == [group]]
    return {
        (row["TOPIC"], int(row["PARTITION"])): ToolRow(
            committed=_number(row["CURRENT-OFFSET"]),
            end=_number(row["LOG-END-OFFSET"]),
            lag=_number(row["LAG"]),
            owner=_name(row["CONSUMER-ID"]),
            host=_name(row["HOST"]),
            client_id=_name(row["CLIENT-ID"]),
        )
        for row in rows
    }


def _name(text: str) -> str | None:
    return None if text == "-" else text


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)
