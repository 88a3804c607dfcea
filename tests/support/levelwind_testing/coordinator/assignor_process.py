"""The assignors for brokers, asked in bulk: a Java process that answers a group a line."""

import json
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.deploy.coordinator import assignor_jar
from levelwind.deploy.jars import classpath
from levelwind.deploy.java import java

SOURCES = Path(__file__).with_name("java")
PACKAGE = "levelwind.coordinator"
RACK_UNIFORM, PLANNED = "rack-uniform", "levelwind"
SERVED = (
    f"{PACKAGE}.RackUniformAssignor",
    f"{PACKAGE}.PlannedAssignor",
    # Kafka's own, with the name `uniform`.
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
)


class Programs(NamedTuple):
    """The jar for brokers, and the programs that test its classes."""

    jar: Path
    class_path: str

    def command(self, program: str, *arguments: str) -> list[str]:
        """Command line of one of the programs."""
        return [str(java()), "-Xmx1g", "-cp", self.class_path, f"{PACKAGE}.{program}", *arguments]


def compiled(directory: Path) -> Programs:
    """Build the jar, and compile the programs against it."""
    jar = assignor_jar.build(directory, "0")
    libraries = [jar, *classpath("brokers")]
    classes = directory / "programs"
    assignor_jar.compile_java(sorted(SOURCES.rglob("*.java")), classes, libraries)
    return Programs(jar, ":".join(map(str, [classes, *libraries])))


class AssignorProcess:
    """A process with assignors of brokers; ends with the `with` block."""

    def __init__(self, programs: Programs) -> None:
        self._process = subprocess.Popen(
            programs.command("AssignorServer", *SERVED),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def ask(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a group as `stated` gives it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(stated) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def assignment(self, assignor: str, group: Group) -> Assignment:
        """The assignor's plan for a group.

        Raises:
            ProblemError: a partition is given twice, or does not exist.
        """
        members = self.ask(stated(assignor, group))["members"]
        return Assignment.from_names(
            group,
            {
                member: {group.topics[int(topic)]: numbers for topic, numbers in share.items()}
                for member, share in members.items()
            },
        )


def topic_id(number: int) -> str:
    """Id of a topic in the process, as records of topics have it."""
    return urlsafe_b64encode((1 << 64 | number).to_bytes(16)).rstrip(b"=").decode()


def stated(assignor: str, group: Group) -> dict[str, Any]:
    """A group as the process reads it: topics by number, and each member's last target."""
    held = Assignment.held(group).to_names(group)
    number = {name: index for index, name in enumerate(group.topics)}
    bounds = group.replica_start.tolist()
    racks = [
        [group.racks[rack] for rack in group.replica_rack[start:end].tolist()]
        for start, end in pairwise(bounds)
    ]
    first = group.topic_start.tolist()
    members = [
        {
            "id": member,
            "instance": group.instances[index],
            "rack": group.racks[rack] if (rack := int(group.member_rack[index])) >= 0 else None,
            "topics": group.subscribed(index).tolist(),
            "held": [
                [number[topic], partition]
                for topic, numbers in held[member].items()
                for partition in numbers
            ],
        }
        for index, member in enumerate(group.members)
    ]
    return {
        "assignor": assignor,
        "topics": [racks[start:end] for start, end in pairwise(first)],
        "members": members,
    }
