"""Division of a managed consumer's settings among user and hand-over."""

import subprocess
import sys

import pytest
from confluent_kafka import Consumer, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.clients.confluent.event_log import log
from levelwind.assignors.clients.confluent.settings import (
    RESERVED_SETTINGS,
    client_settings,
    first_life,
    member_profile,
)
from levelwind.assignors.clients.flat_settings import flat_settings
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import decode, encode
from levelwind.clients.confluent import ManagedConsumer, SettingError


def profile_of(config, **options):
    given = {"rack": None, "instance": "i", "fencing": "none", **options}
    return member_profile(
        flat_settings(config),
        group="g",
        topics=["t"],
        priority=0,
        capacity=1.0,
        prefix="lw.",
        **given,
    )


def settings_of(config, **options):
    return client_settings(config, profile=profile_of(config, **options), timers=Timers())


@pytest.mark.parametrize("name", RESERVED_SETTINGS)
def test_settings_of_the_hand_over_are_refused_with_the_alternative(name):
    with pytest.raises(SettingError, match=f"{name} cannot be set here: "):
        settings_of({name: "x"})


SETTINGS = {
    "auto.offset.reset": ("smallest", "latest"),
    "enable.auto.commit": (True, "false"),
    "fetch.wait.max.ms": (5, "50"),
    "isolation.level": ("read_committed", "read_uncommitted"),
    "max.poll.interval.ms": (9_000, "70000"),
    "reconnect.backoff.ms": (10, 1_000),
    "security.protocol": ("PLAINTEXT", "SSL"),
    "session.timeout.ms": (6_000,),
    "client.rack": ("a", "b"),
    "throttle_cb": (print,),
}
configs = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in SETTINGS.items()}
)


def outcome(config, fencing):
    try:
        return profile_of(config, fencing=fencing), settings_of(config, fencing=fencing)
    except SettingError as error:
        return str(error)


@given(beside=configs, table=configs, fencing=st.sampled_from(["none", "broker"]))
def test_settings_in_a_default_topic_config_count_as_if_they_were_beside_it(beside, table, fencing):
    nested = {**beside, "default.topic.config": table}
    assert outcome(nested, fencing) == outcome({**beside, **table}, fencing)
    assert nested["default.topic.config"] is table


def test_confluent_kafka_itself_lets_a_default_topic_config_win():
    nested = {"auto.offset.reset": "no such word", "default.topic.config": {}}
    with pytest.raises(KafkaException, match="no such word"):
        Consumer({"group.id": "g", **nested})
    nested["default.topic.config"] = {"auto.offset.reset": "earliest"}
    Consumer({"group.id": "g", **nested}).close()


def test_a_default_topic_config_that_is_no_table_is_refused():
    with pytest.raises(SettingError, match=r"default\.topic\.config: expected a table"):
        settings_of({"default.topic.config": "auto.offset.reset=earliest"})


@pytest.mark.parametrize(
    ("word", "at_end"),
    [
        *((word, True) for word in ("latest", "largest", "end", "Latest", " end")),
        *((word, False) for word in ("earliest", "smallest", "beginning", "error", " SMALLEST")),
    ],
)
def test_each_word_of_librdkafka_for_a_first_offset_is_known(word, at_end):
    settings = settings_of({"auto.offset.reset": word})
    assert (settings.pins_latest is not None) is at_end
    Consumer(settings.consumer).close()


def test_everything_else_goes_to_the_consumer_under_its_own_name():
    consumer = settings_of({"fetch.min.bytes": 7, "isolation.level": "read_committed"}).consumer
    assert consumer["fetch.min.bytes"] == 7
    assert consumer["isolation.level"] == "read_committed"
    assert consumer["group.id"] == "g"


def test_a_late_commit_is_bounded_by_the_timers():
    consumer = settings_of({}).consumer
    assert (consumer["session.timeout.ms"], consumer["socket.timeout.ms"]) == (3000, 3000)


def test_librdkafka_itself_never_commits():
    consumer = settings_of({"enable.auto.commit": True, "enable.auto.offset.store": True}).consumer
    assert (consumer["enable.auto.commit"], consumer["enable.auto.offset.store"]) == (False, False)


@pytest.mark.parametrize(
    ("given", "meant"), [(True, True), ("true", True), ("False", False), (False, False)]
)
def test_a_flag_may_be_a_word_as_in_librdkafka(given, meant):
    assert settings_of({"enable.auto.commit": given}).auto_commit is meant


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.auto.commit", "yes"),
        ("enable.auto.commit", 1),
        ("auto.commit.interval.ms", "soon"),
        ("max.poll.interval.ms", -1),
        ("max.poll.interval.ms", "never"),
        ("fetch.wait.max.ms", None),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(name, value):
    with pytest.raises(SettingError, match=name):
        settings_of({name: value})


def test_connection_settings_hold_for_all_clients():
    connection = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.ca.location": "/ca",
        "client.id": "me",
    }
    settings = settings_of({**connection, "fetch.min.bytes": 7}, fencing="broker")
    ours = (settings.reader, settings.admin, settings.producer, settings.transactions)
    for config in (settings.consumer, *ours):
        assert connection.items() <= config.items()
    assert all("fetch.min.bytes" not in config for config in ours)


@pytest.mark.parametrize(
    ("given", "idle", "backoff"),
    [
        ({}, 180_000, 500),
        ({"connections.max.idle.ms": 60_000}, 60_000, 500),
        ({"reconnect.backoff.max.ms": 9_000}, 180_000, 9_000),
        ({"reconnect.backoff.ms": 1_000}, 180_000, None),  # above our maximum
    ],
)
def test_all_clients_end_idle_connections_before_the_brokers_do(given, idle, backoff):
    settings = settings_of({"bootstrap.servers": "h:1", **given}, fencing="broker")
    clients = (settings.consumer, settings.reader, settings.producer, settings.transactions)
    for config in (*clients, settings.admin):
        assert config["connections.max.idle.ms"] == idle
        assert config.get("reconnect.backoff.max.ms") == backoff
    for config in clients[:2]:
        Consumer(config).close()


def test_a_member_announces_how_long_its_handlers_may_take():
    assert profile_of({}).max_poll_interval == 300
    assert profile_of({"max.poll.interval.ms": "1500"}).max_poll_interval == 1.5


def test_broker_fencing_has_one_transactional_id_for_a_group_and_an_instance():
    settings = settings_of({}, fencing="broker")
    assert settings.transactions["transactional.id"] == "lw.g/i"
    assert profile_of({}, fencing="broker").transactional_id == "lw.g/i"
    assert settings_of({}).transactions is None
    assert profile_of({}).transactional_id is None


@pytest.mark.parametrize(
    ("config", "fencing", "word"),
    [
        ({}, "brokers", "fencing"),
        ({"isolation.level": "read_uncommitted"}, "broker", "isolation.level"),
    ],
)
def test_fencing_that_cannot_be_had_is_refused(config, fencing, word):
    with pytest.raises(SettingError, match=word):
        profile_of(config, fencing=fencing)


def test_the_rack_is_used_for_fetching_too_unless_the_user_says_otherwise():
    assert settings_of({}, rack="a").consumer["client.rack"] == "a"
    assert settings_of({"client.rack": "b"}, rack="a").consumer["client.rack"] == "b"
    assert "client.rack" not in settings_of({}).consumer


def test_topics_that_begin_with_a_circumflex_are_patterns():
    profile = member_profile(
        {},
        group="g",
        topics=["^orders", "paid", r"^eu\.", "placed"],
        instance=None,
        rack=None,
        priority=0,
        capacity=1.0,
        fencing="none",
        prefix="lw.",
    )
    assert (profile.topics, profile.pattern) == (("paid", "placed"), r"^eu\.|^orders")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"topics": "orders"}, "topics"),
        ({"topics": []}, "topics"),
        ({"topics": ["^a", "^(b"]}, "has no"),
        ({"topics": [r"^(a)\1"]}, "not supported"),
        ({"group": ""}, "group"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": float("nan")}, "capacity"),
        ({"capacity": 1e7}, "capacity"),
        ({"priority": 2**31}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"topics": [7]}, "topics"),
        ({"topics": [b"t"]}, "topics"),
        ({"group": 7}, "group: expected a text"),
        ({"group": 7, "fencing": "broker"}, "group: expected a text"),
        ({"group": "g" * 1_025}, "group"),
        ({"instance": 7}, "instance: expected a text"),
        ({"instance": 0}, "instance: expected a text"),
        ({"instance": b"i"}, "instance: expected a text"),
        ({"instance": "i" * 1_025}, "instance"),
        ({"instance": "\udcff"}, "surrogates not allowed"),
        ({"instance": "%" * 400, "fencing": "broker"}, "transactional_id"),
        ({"rack": 7}, "rack: expected a text"),
        ({"rack": 0}, "rack: expected a text"),
        ({"rack": "r" * 1_025}, "rack"),
        ({"timers": Timers(hold=4_000, grant=5_000, longest_grant=5_000)}, "hold_ms"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_started(options, word):
    with pytest.raises(SettingError, match=word):
        ManagedConsumer({"bootstrap.servers": "h:1"}, **{"group": "g", "topics": ["t"], **options})


@pytest.mark.parametrize("milliseconds", [0, "0", 86_400_001])
def test_a_poll_interval_that_cannot_be_announced_is_refused(milliseconds):
    config = {"bootstrap.servers": "h:1", "max.poll.interval.ms": milliseconds}
    with pytest.raises(SettingError, match="max_poll_interval_ms"):
        ManagedConsumer(config, group="g", topics=["t"])


names = st.text(max_size=3) | st.sampled_from(["n" * 1_024, "n" * 1_025, "/%" * 200])


@given(
    group=names,
    instance=names | st.none(),
    rack=names | st.none(),
    topics=st.lists(names, min_size=1, max_size=2),
    fencing=st.sampled_from(["none", "broker"]),
    poll_interval=st.sampled_from([0, 1, 300_000, 86_400_000, 86_400_001]),
)
def test_the_daemon_reads_what_a_member_announces_as_it_was_meant(
    group, instance, rack, topics, fencing, poll_interval
):
    try:
        profile = member_profile(
            {"max.poll.interval.ms": poll_interval},
            group=group,
            topics=topics,
            instance=instance,
            rack=rack,
            priority=0,
            capacity=1.0,
            fencing=fencing,
            prefix="lw.",
        )
        record = first_life(profile, Timers()).record("joining")
    except SettingError:
        return
    assert decode("members", *encode(record)) == record
    assert (record.group, record.rack) == (group, rack or None)
    assert record.instance == (instance or record.instance)


def test_an_empty_rack_is_none():
    assert profile_of({}, rack="").rack is None
    assert "client.rack" not in settings_of({}, rack="").consumer


def test_the_consumer_side_pulls_in_nothing_of_the_control_plane():
    code = """
import sys
import levelwind.assignors.clients.confluent
import levelwind.assignors.handover.ledger, levelwind.assignors.protocol.records
heavy = {"pyspark", "apscheduler", "structlog", "pyarrow", "pandas", "pydantic", "click", "rich"}
heavy |= {"levelwind.daemon", "levelwind.streaming", "levelwind.deploy"}
print(sorted(heavy & set(sys.modules)))
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_the_logger_has_the_documented_name():
    assert log.name == "levelwind.clients.confluent"


def test_delays_of_quotas_are_reported_by_each_client_and_to_the_application_besides():
    heard, of_application = [], []
    own = settings_of({"throttle_cb": of_application.append})
    for settings in (settings_of({}), own):
        reporting = settings.with_throttle_callback(heard.append)
        for client in (reporting.consumer, reporting.reader, reporting.producer):
            client["throttle_cb"]("delay")
    assert heard == ["delay"] * 6
    assert of_application == ["delay"]


def test_a_throttle_callback_of_none_is_none():
    heard = []
    reporting = settings_of({"throttle_cb": None}).with_throttle_callback(heard.append)
    reporting.consumer["throttle_cb"]("delay")
    assert heard == ["delay"]
    Consumer(reporting.consumer).close()
