"""Rights as `levelwind acls` prints them, granted and taken away; and what a broker was asked."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from click.testing import CliRunner
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from levelwind.daemon.cli.main import main
from levelwind_testing.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from confluent_kafka.admin import AdminClient

RESOURCES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--cluster": ResourceType.BROKER,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
}
CLUSTER = "kafka-cluster"
DECISION = re.compile(
    r"Principal = User:(?P<user>\S+) is (?P<verdict>Allowed|Denied) operation = (?P<operation>\w+)"
    r" from host = \S+ on resource = (?P<kind>\w+):LITERAL:(?P<name>.+?)"
    r" for request = (?P<request>\w+)"
)


def printed(*arguments: str) -> list[AclBinding]:
    """The rights that `levelwind acls` prints, one a binding."""
    result = CliRunner().invoke(main, ("acls", *arguments))
    assert result.exit_code == 0, result.output
    return [binding for line in result.output.splitlines() for binding in _bindings(line)]


def _bindings(line: str) -> Iterator[AclBinding]:
    words = shlex.split(line)
    words = words[words.index("--add") + 1 :]
    principal, operations, pattern = "", [], ResourcePatternType.LITERAL
    kind, name = ResourceType.UNKNOWN, ""
    while words:
        option = words.pop(0)
        if option == "--allow-principal":
            principal = words.pop(0)
        elif option == "--operation":
            operations.append(OPERATIONS[words.pop(0)])
        elif option == "--resource-pattern-type":
            pattern = ResourcePatternType[words.pop(0).upper()]
        else:
            kind = RESOURCES[option]
            name = CLUSTER if kind is ResourceType.BROKER else words.pop(0)
    for operation in operations:
        yield AclBinding(kind, name, pattern, principal, "*", operation, AclPermissionType.ALLOW)


def grant(admin: AdminClient, bindings: Sequence[AclBinding]) -> None:
    """Grant rights, and wait until the broker that answers has read them."""
    for answer in admin.create_acls(list(bindings)).values():
        answer.result(30)
    for binding in bindings:
        wait_until(f"right {binding}", lambda each=binding: _listed(admin, each))


@contextmanager
def granted(admin: AdminClient, bindings: Sequence[AclBinding]) -> Iterator[None]:
    """Rights for the length of a block."""
    grant(admin, bindings)
    try:
        yield
    finally:
        for binding in reversed(bindings):
            revoke(admin, binding)


def revoke(admin: AdminClient, binding: AclBinding) -> None:
    """Take one right away, and wait until the broker that answers has read that."""
    (answer,) = admin.delete_acls([_filter(binding)]).values()
    assert len(answer.result(30)) == 1
    wait_until(f"end of the right {binding}", lambda: not _listed(admin, binding))


def _listed(admin: AdminClient, binding: AclBinding) -> bool:
    """Whether a broker knows a right: it lists what it checks requests against."""
    return bool(admin.describe_acls(_filter(binding)).result(30))


def _filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """What a broker's authorizer decided."""

    user: str
    allowed: bool
    operation: str
    kind: str
    name: str
    request: str

    def uses(self, binding: AclBinding) -> bool:
        """Whether the right was needed for it."""
        kind = "CLUSTER" if binding.restype is ResourceType.BROKER else binding.restype.name
        if kind.replace("_", "") != self.kind.upper() or binding.operation.name != self.operation:
            return False
        if binding.resource_pattern_type is ResourcePatternType.PREFIXED:
            return self.name.startswith(binding.name)
        return binding.name in {"*", self.name}


def decisions(log: Path) -> list[Decision]:
    """What the authorizer of a broker decided, from its log."""
    found = DECISION.finditer(log.read_text(errors="replace"))
    return [
        Decision(
            user=one["user"],
            allowed=one["verdict"] == "Allowed",
            operation=one["operation"],
            kind=one["kind"],
            name=one["name"],
            request=one["request"],
        )
        for one in found
    ]
