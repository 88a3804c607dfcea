"""Rights by role, as the command prints them."""

import json
import shlex

import pytest
from click.testing import CliRunner

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.access.role_rights import (
    Operation,
    Resource,
    Right,
    commands,
    consumer_rights,
    daemon_rights,
    missing,
    pipeline_rights,
)
from levelwind.daemon.cli.main import main
from levelwind.daemon.errors import ConfigurationError


def acls(*arguments):
    return CliRunner().invoke(main, ("acls", *arguments))


def labels(rights):
    return [right.label for right in rights]


def test_each_right_is_named_as_messages_name_it():
    found = labels(daemon_rights(Topics(), proxied=["orders"]))
    assert "READ on topic *" in found
    assert "READ on topic levelwind.*" not in found, "the right to read all topics contains it"
    assert "DESCRIBE on group *" in found
    assert "READ on group orders" in found
    assert "DESCRIBE_CONFIGS on the cluster" in found
    assert "WRITE on transactional id levelwind.*" in found


def test_a_daemon_that_observes_some_topics_needs_rights_on_these_and_on_the_offsets_topic():
    found = labels(daemon_rights(Topics(), observed=["orders", "pay.*"]))
    assert {
        "READ on topic levelwind.*",
        "READ on topic orders",
        "READ on topic pay.*",
        "READ on topic __consumer_offsets",
    } <= set(found)
    assert "READ on topic *" not in found


def test_where_commits_are_polled_nobody_needs_the_offsets_topic():
    daemon = labels(daemon_rights(Topics(), observed=["orders"], polled=True))
    pipeline = labels(pipeline_rights(Topics(), polled=True))
    assert [label for label in (*daemon, *pipeline) if "__consumer_offsets" in label] == []
    assert "READ on topic levelwind.commits" in pipeline
    assert "DESCRIBE on group *" in daemon


def test_the_pipeline_writes_no_assignments_and_no_announcements():
    written = {
        right.name for right in pipeline_rights(Topics()) if right.operation is Operation.WRITE
    }
    assert not written & {"levelwind.assignments", "levelwind.members", "levelwind.control"}


def test_a_consumer_with_broker_fencing_may_commit_under_the_names_of_its_group_alone():
    plain = consumer_rights(Topics(), "orders", ["placed"])
    fenced = consumer_rights(Topics(), "orders", ["placed"], fencing="broker")
    (extra,) = set(fenced) - set(plain)
    assert extra.label == "WRITE on transactional id levelwind.orders/*"


def test_a_name_that_ends_with_a_star_gives_no_right_to_others():
    rights = consumer_rights(Topics(), "or*", ["placed"], fencing="broker")
    named = [right for right in rights if right.name.startswith(("or", "levelwind.or"))]
    assert [(right.name, right.prefixed) for right in named] == [
        ("or*", False),
        ("levelwind.or*/", True),
    ]
    with pytest.raises(ConfigurationError, match="no rule can give"):
        consumer_rights(Topics(), "*", ["placed"])


def test_one_command_grants_all_operations_on_a_resource():
    topic = {"resource": Resource.TOPIC, "name": "a b.", "prefixed": True, "purpose": ""}
    (line,) = commands(
        [Right(operation=op, **topic) for op in (Operation.READ, Operation.WRITE)],
        "User:CN=x",
        tool="tool",
    )
    assert shlex.split(line) == [
        "tool",
        *("--add", "--allow-principal", "User:CN=x"),
        *("--operation", "Read", "--operation", "Write"),
        *("--topic", "a b.", "--resource-pattern-type", "prefixed"),
    ]


def test_a_right_that_another_contains_is_not_missing():
    describe = Right(resource=Resource.TOPIC, name="t", operation=Operation.DESCRIBE, purpose="")
    assert missing([describe], {"WRITE"}) == missing([describe], {"DESCRIBE"}) == []
    assert missing([describe], {"ALTER"}) == [describe]


def test_the_command_prints_a_line_a_resource_and_with_json_an_object_a_right():
    text = acls("--set", "prefix=lw.", "--bootstrap", "b:1", "--principal", "User:daemon")
    assert text.exit_code == 0
    first = text.output.splitlines()[0]
    assert first.startswith("kafka-acls.sh --bootstrap-server b:1 --command-config")
    assert "--allow-principal User:daemon" in first
    assert "--topic lw. --resource-pattern-type prefixed" in first
    rights = [json.loads(line) for line in acls("--format", "json").output.splitlines()]
    assert {right["operation"] for right in rights} >= {"Read", "Write", "Create"}
    assert {right["principal"] for right in rights} == {"User:levelwind"}


@pytest.mark.parametrize("role", ["consumer", "subscriber"])
def test_a_consumers_rights_need_its_group_and_topics(role):
    assert acls("--role", role, "--group", "g").exit_code == 2
    named = acls("--role", role, "--group", "g", "--topic", "t*")
    assert named.exit_code == 0
    assert "--operation Read --topic t --resource-pattern-type prefixed" in named.output


@pytest.mark.parametrize("role", ["pipeline", "operator", "assess"])
def test_every_role_has_rights(role):
    assert "--add" in acls("--role", role).output
