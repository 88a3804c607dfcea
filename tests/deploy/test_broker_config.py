"""What a broker is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from levelwind.deploy.broker_config import (
    BrokerSecurity,
    Node,
    java_command,
    meta_properties,
    new_id,
    properties,
)


def nodes(count):
    return [
        Node(id=i + 1, rack="abc"[i % 3], port=100 + i, controller_port=200 + i)
        for i in range(count)
    ]


def settings_of(count, overrides=None, data=Path("/data")):
    text = properties(nodes(count)[0], nodes(count), data, overrides or {})
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.parametrize(
    ("count", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")]
)
def test_internal_topics_have_as_many_copies_as_there_are_brokers_up_to_three(
    count, copies, in_sync
):
    settings = settings_of(count)
    assert settings["offsets.topic.replication.factor"] == copies
    assert settings["transaction.state.log.replication.factor"] == copies
    assert settings["transaction.state.log.min.isr"] == in_sync


def test_all_nodes_vote():
    assert (
        settings_of(3)["controller.quorum.voters"]
        == "1@127.0.0.1:200,2@127.0.0.1:201,3@127.0.0.1:202"
    )


def test_a_callers_settings_go_before_ours_but_not_before_what_the_cluster_stands_on():
    settings = settings_of(3, {"num.partitions": "7", "node.id": "99"})
    assert settings["num.partitions"] == "7"
    assert settings["node.id"] == "1"


def test_a_node_without_a_rack_names_none():
    lone = Node(id=1, rack=None, port=100, controller_port=200)
    assert "broker.rack" not in properties(lone, [lone], Path("/data"), {})


def test_nothing_listens_beyond_this_machine():
    settings = settings_of(3)
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:100,CONTROLLER://127.0.0.1:200"


def test_a_broker_behind_a_proxy_listens_at_its_own_ports_and_advertises_those_of_the_proxy():
    proxied = [replace(n, advertised_port=900, advertised_controller_port=901) for n in nodes(1)]
    text = properties(proxied[0], proxied, Path("/data"), {})
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:100,CONTROLLER://127.0.0.1:200"
    assert settings["advertised.listeners"] == (
        "PLAINTEXT://127.0.0.1:900,CONTROLLER://127.0.0.1:901"
    )
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:901"
    assert proxied[0].address == "127.0.0.1:900"


def test_a_controller_is_advertised_only_where_its_port_is_another_one():
    """Brokers before 3.9 refuse a controller among the advertised listeners."""
    assert settings_of(1)["advertised.listeners"] == "PLAINTEXT://127.0.0.1:100"


def test_backslashes_in_a_path_are_kept():
    assert settings_of(1, data=Path("/a\\b"))["log.dirs"] == "/a\\\\b"


def test_storage_is_named_by_node_and_cluster():
    text = meta_properties(nodes(2)[1], "cluster", "directory")
    assert text.splitlines() == [
        "version=1",
        "cluster.id=cluster",
        "node.id=2",
        "directory.id=directory",
    ]


def test_ids_are_such_as_kafka_prints():
    ids = [new_id() for _ in range(500)]
    assert len(set(ids)) == 500
    assert all(len(text) == 22 and not text.startswith("-") for text in ids)


def test_a_program_of_the_brokers_is_run_with_their_jars_and_log():
    command = java_command(
        Path("/java"), [Path("/a.jar"), Path("/b.jar")], ["-Xmx1m"], "kafka.Kafka", "x"
    )
    assert command[:2] == ["/java", "-Xmx1m"]
    assert command[-4:] == ["-cp", "/a.jar:/b.jar", "kafka.Kafka", "x"]
    assert any(option.startswith("-Dlog4j2.configurationFile=file:") for option in command)


SECURITY = BrokerSecurity(
    keystore=Path("/tls/broker.pem"),
    truststore=Path("/tls/authority.pem"),
    brokers_user="broker",
    super_users=("root",),
)


def secure_settings(**changes):
    node = replace(nodes(1)[0], mutual_tls_port=300)
    text = properties(node, [node], Path("/data"), {}, replace(SECURITY, **changes))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_secure_brokers_have_no_open_listener_and_ask_every_peer_for_its_certificate():
    settings = secure_settings()
    assert settings["listeners"] == (
        "SASL_SSL://127.0.0.1:100,SSL://127.0.0.1:300,CONTROLLER://127.0.0.1:200"
    )
    assert "PLAINTEXT" not in settings["listener.security.protocol.map"]
    assert settings["inter.broker.listener.name"] == "SSL"
    for listener in ("ssl", "controller"):
        assert settings[f"listener.name.{listener}.ssl.client.auth"] == "required"


def test_the_authorizer_lets_the_brokers_and_the_super_users_do_everything():
    settings = secure_settings()
    assert settings["super.users"] == "User:broker;User:root"
    assert "allow.everyone.if.no.acl.found" not in settings
    assert "authorizer.class.name" not in secure_settings(authorize=False)
