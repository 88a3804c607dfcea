"""Ways in which a group could follow."""

import pytest

from levelwind.daemon.assessment.following import libraries_of, ways_of
from levelwind.daemon.assessment.observed_groups import CONSUMER_PROTOCOL
from levelwind_testing.groups.observations import NAME, described, member

TWO = (member("a", 0), member("b", 1))


def fits(group, **other):
    return {way.mode: way.fits for way in ways_of(group, NAME, **other)}


def clients(*names):
    return described(*(member(name, n, client=name) for n, name in enumerate(names)))


def test_a_classic_group_of_unknown_clients_can_be_led_and_perhaps_be_changed():
    assert fits(described(*TWO)) == {
        "advisory": True,
        "proxy": True,
        "published": None,
        "managed": None,
    }


def test_a_group_of_kip_848_can_be_advised_or_planned_by_the_brokers():
    group = described(*TWO, type=CONSUMER_PROTOCOL, assignor="uniform")
    assert fits(group) == {
        "advisory": True,
        "proxy": False,
        "published": False,
        "managed": None,
        "coordinator": None,
    }


@pytest.mark.parametrize(
    ("group", "refuses"),
    [
        (described(*TWO, assignor="uniform"), None),
        (described(TWO[0]), None),
        (described(*TWO), "no GSSAPI"),
    ],
    ids=["unknown assignor", "one member", "security"],
)
def test_the_proxy_leads_no_group_that_it_cannot_join(group, refuses):
    assert fits(group, proxy_refuses=refuses)["proxy"] is False


def test_whether_the_proxy_can_lead_is_not_known_during_a_rebalance():
    assert fits(described(*TWO, assignor=""))["proxy"] is None


def test_client_ids_that_libraries_give_by_default_name_them():
    ids = ("rdkafka", f"consumer-{NAME}-1", "aiokafka-0.12.0", "kafka-python-2.2.1", "app")
    assert libraries_of(clients(*ids), NAME) == ("Java", "aiokafka", "kafka-python", "librdkafka")
    assert libraries_of(clients("consumer-7", "my-rdkafka", "consumer-other-1"), NAME) == ()


def test_assignor_classes_are_for_clients_of_python_alone():
    assert fits(clients("kafka-python-2.2.1", "aiokafka-0.12.0"))["published"] is True
    assert fits(clients("kafka-python-2.2.1", "rdkafka"))["published"] is False


def test_a_managed_consumer_takes_the_place_of_confluent_kafkas_alone():
    assert fits(clients("rdkafka", "rdkafka"))["managed"] is None
    assert fits(clients(f"consumer-{NAME}-1", "app"))["managed"] is False


def test_an_application_of_streams_and_a_group_without_members_follow_in_no_way():
    assert set(fits(described(*TWO, assignor="stream")).values()) == {False}
    assert ways_of(described(), NAME) == ()


def test_a_way_names_the_group_in_what_it_needs_and_nothing_where_it_does_not_fit():
    proxy = next(way for way in ways_of(described(*TWO), NAME) if way.mode == "proxy")
    assert f"READ on group {NAME}" in proxy.needs(NAME)
    alone = next(way for way in ways_of(described(TWO[0]), NAME) if way.mode == "proxy")
    assert alone.needs(NAME) is None
