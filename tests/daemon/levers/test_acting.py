"""Orders on real brokers: the commands write what the planner follows, and the audit trail."""

import json

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from levelwind.assignors.protocol.records import LeverRecord, OperatorRecord, Tombstone, encode
from levelwind.assignors.protocol.topics import partition_for
from levelwind.daemon.cli.main import main
from levelwind.daemon.decisions.encoding import parts
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind_testing.control.play import begun
from levelwind_testing.records import assignment, lag, member, topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture
def levelwind(topics, client_config):
    def run(*arguments, code=0):
        options = ["--bootstrap", client_config["bootstrap.servers"]]
        options += ["--set", f"prefix={topics.prefix}"]
        done = CliRunner().invoke(main, [*arguments, *options])
        assert done.exit_code == code, done.output
        return done.output

    return run


@pytest.fixture
def write(topics, client_config):
    producer = Producer(client_config)

    def send(kind, record):
        key, value = encode(record)
        group = getattr(record, "group", None) or getattr(record, "topic", "")
        partition = 0 if kind == "control" else partition_for(group, 4)
        producer.produce(topics.name(kind), value, key, partition=partition)
        assert producer.flush(20) == 0

    return send


@pytest.fixture
def group(write):
    write("metadata", topic())
    write("lag", lag(10, 10, 10, 10))
    for name, numbers in (("m0", (0, 1, 2, 3)), ("m1", ())):
        owned = {"t": numbers} if numbers else {}
        write("members", member(name, state="active", owned=owned))
        write("assignments", assignment(name, owned, group="g"))


def control(topics, client_config):
    return [entry.record for entry in read_to_end(client_config, topics, ("control",))]


def test_levers_are_written_audited_and_released(levelwind, topics, client_config, group):
    dry = levelwind("drain", "g", "m0")
    assert "dry run: nothing was changed" in dry
    assert "4 partitions would move" in dry
    assert control(topics, client_config) == []
    assert "no decision" not in levelwind("decisions")
    levelwind("drain", "g", "m0", "--execute", "--reason", "deploy")
    levelwind("pause", "--all", "--execute")
    drain, pause = control(topics, client_config)
    assert isinstance(drain, LeverRecord)
    assert (drain.kind, drain.subject, drain.reason) == ("drain", "m0", "deploy")
    assert "@" in drain.by
    assert pause.key == ("lever", "*", "pause", "*")
    assert "lever: drain m0 for g" in levelwind("describe", "g")
    levelwind("resume", "g", "--execute", code=6)
    levelwind("resume", "--all", "--execute")
    levelwind("undrain", "g", "m0", "--execute")
    assert {record.key for record in control(topics, client_config)[2:]} == {
        pause.key,
        drain.key,
    }
    assert isinstance(control(topics, client_config)[-1], Tombstone)
    trail = [
        json.loads(line) for line in levelwind("decisions", "g", "--format", "json").splitlines()
    ]
    assert [entry["cause"] for entry in trail] == ["drain", "pause", "resume", "undrain"]
    assert (trail[0]["by"], trail[0]["reason"]) == (drain.by, "deploy")


def test_a_saved_plan_is_applied_and_a_recorded_one_gone_back_to(
    levelwind, topics, client_config, group, write, tmp_path
):
    saved = tmp_path / "plan.json"
    saved.write_text(levelwind("plan", "g", "--format", "json"))
    assert len(levelwind("diff", "g", "--format", "json").splitlines()) == 2
    levelwind("apply", "g", str(saved), "--execute")
    (order,) = control(topics, client_config)
    assert isinstance(order, OperatorRecord)
    assert order.action == "apply"
    assert sum(len(own.get("t", ())) for own in order.target.values()) == 4

    play = begun(topic())
    play.join(member("m0"), member("m1"))
    play.wait(3)
    (draft,) = play.drafts
    for part in parts(draft):
        write("decisions", part)
    assert "identical" in levelwind("replay", draft.plan_id)
    levelwind("rollback", "g", "--to", "9-none", "--execute", code=6)
    levelwind("rollback", "g", "--to", draft.plan_id, "--execute")
    pause, back = control(topics, client_config)[1:]
    assert (pause.kind, back.plan) == ("pause", draft.plan_id)
    expected = {
        name: {"t": tuple(sorted(n for _, n in own))} for name, own in draft.plan.target.items()
    }
    assert back.target == expected
