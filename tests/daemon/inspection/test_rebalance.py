"""`levelwind rebalance`: a word that somebody follows, or an error."""

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from levelwind.assignors.protocol.records import OperatorRecord, encode
from levelwind.daemon.cli.main import main
from levelwind.daemon.decisions.encoding import assemble
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind.daemon.levers import orders
from levelwind_testing.records import lag, member


def test_a_user_without_a_name_is_named_by_number(monkeypatch):
    def nameless():
        raise KeyError("getpwuid(): uid not found: 1000710000")

    monkeypatch.setattr(orders.getpass, "getuser", nameless)
    monkeypatch.setattr(orders.os, "getuid", lambda: 1000710000)
    assert orders.user_name() == "1000710000"


@pytest.mark.integration
def test_a_word_for_a_group_that_nobody_plans_is_refused_and_one_for_another_is_written(
    topics, client_config
):
    watched = lag(5, group="watched")
    managed = member("A", group="managed", state="active")
    producer = Producer(client_config)
    for topic, record in ((topics.lag, watched), (topics.members, managed)):
        key, value = encode(record)
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(20) == 0

    def rebalance(group):
        options = (
            "--bootstrap",
            client_config["bootstrap.servers"],
            "--set",
            f"prefix={topics.prefix}",
        )
        return CliRunner().invoke(main, ["rebalance", group, *options, "--reason", "deploy"])

    refused = rebalance("watched")
    assert refused.exit_code == 6
    assert "group 'watched' is watched, but none of its consumers follows plans" in refused.output
    unknown = rebalance("manged")
    assert unknown.exit_code == 6
    assert "no group 'manged' is known here; there are 2: managed, watched" in unknown.output
    assert rebalance("managed").exit_code == 0
    (word,) = [entry.record for entry in read_to_end(client_config, topics, ["control"])]
    assert isinstance(word, OperatorRecord)
    assert (word.group, word.reason) == ("managed", "deploy")
    parts = [entry.record for entry in read_to_end(client_config, topics, ["decisions"])]
    (order,) = assemble(parts)
    assert (order.outcome, order.cause, order.group) == ("ordered", "rebalance", "managed")
    assert (order.body["reason"], order.body["by"]) == ("deploy", word.by)
    assert order.at == word.at
