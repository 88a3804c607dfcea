"""`default.topic.config`, merged last by confluent-kafka, wins over nothing that levelwind sets."""

from types import MappingProxyType

import pytest

from levelwind.assignors.clients.flat_settings import flat_settings
from levelwind.assignors.clients.idle_connections import with_idle_connections
from levelwind.clients.classic import (
    BrokerLag,
    LagUnavailableError,
    PublishedPlans,
    no_common_protocol,
)
from levelwind.daemon.kafka import clients

TABLE = {
    "isolation.level": "read_committed",
    "enable.auto.commit": True,
    "auto.offset.reset": "latest",
    "security.protocol": "SSL",
    "reconnect.backoff.ms": 1_000,
}
GIVEN = {"bootstrap.servers": "h:1", "default.topic.config": TABLE}


def test_settings_of_the_table_win_over_those_beside_it_and_the_given_ones_stay():
    given = {"a": 1, "b": 1, "default.topic.config": MappingProxyType({"b": 2, "c": 2})}
    assert flat_settings(given) == {"a": 1, "b": 2, "c": 2}
    assert given["b"] == 1


@pytest.mark.parametrize("table", [7, "a=1", None, [("a", 1)]])
def test_what_is_no_table_is_left_to_confluent_kafka(table):
    assert flat_settings({"default.topic.config": table}) == {"default.topic.config": table}


def test_a_callback_of_none_takes_the_place_of_no_other_one():
    given = {"error_cb": print, "logger": None, "default.topic.config": {"error_cb": None}}
    assert flat_settings(given) == {"error_cb": print}


def test_settings_for_idle_connections_look_into_the_table():
    settings = with_idle_connections(GIVEN)
    assert "reconnect.backoff.max.ms" not in settings  # librdkafka refuses one below the minimum
    assert settings["security.protocol"] == "SSL"


def settings_of_the_daemon():
    made = []
    required = {"isolation.level": "read_uncommitted", "enable.auto.commit": False}
    clients._make(lambda config, **_: made.append(config), GIVEN, required)
    return made[0]


@pytest.mark.parametrize(
    ("settings_of", "set_here"),
    [
        (lambda: BrokerLag(GIVEN, "g")._config, ["isolation.level", "enable.auto.commit"]),
        (lambda: PublishedPlans(GIVEN, "g")._config, ["auto.offset.reset", "enable.auto.commit"]),
        (settings_of_the_daemon, ["isolation.level", "enable.auto.commit"]),
    ],
    ids=["lag", "plans", "daemon"],
)
def test_clients_of_levelwind_keep_what_they_need(settings_of, set_here):
    settings = settings_of()
    assert "default.topic.config" not in settings
    assert settings["security.protocol"] == "SSL"
    assert all(settings[name] != TABLE[name] for name in set_here)


def test_callbacks_of_none_keep_no_client_from_being_made():
    config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "error_cb": None}
    with pytest.raises(LagUnavailableError):
        BrokerLag(config, "g", timeout=0.01)(["t"])
    assert "member offers" in str(no_common_protocol(config, "g", [], timeout=0.01))
