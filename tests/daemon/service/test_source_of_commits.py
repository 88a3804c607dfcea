"""Where commits are read from, as a daemon decides it at its start."""

import pytest

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.config.settings import load
from levelwind.daemon.errors import ClusterUnavailableError, ConfigurationError
from levelwind.daemon.kafka import topic_setup
from levelwind.daemon.service import startup

POLLED = "levelwind.commits"


@pytest.fixture
def decide(monkeypatch, log):
    """The topic that commits are read from, by what the brokers say one time after the other."""

    def decide(*said, error=None, **settings):
        answers = list(said)
        monkeypatch.setattr(startup, "log", log)
        monkeypatch.setattr(startup, "may_read", lambda *_, **__: answers.pop(0))

        def ensure(*_):
            if error:
                raise error

        monkeypatch.setattr(topic_setup, "ensure_offsets_topic", ensure)
        found = startup._with_source_of_commits(load(overrides=settings))
        assert not answers
        return found.commits_topic

    return decide


def test_the_offsets_topic_is_read_where_that_is_allowed(decide, log):
    assert decide(True) == OFFSETS_TOPIC
    assert log.events == []


def test_where_it_may_not_be_read_commits_are_polled_and_that_is_said(decide, log):
    assert decide(False) == POLLED
    (said,) = log.of("commits.topic_unreadable")
    assert said["level"] == "warning"


def test_on_a_new_cluster_the_topic_is_made_and_then_looked_at(decide):
    assert decide(None, True) == OFFSETS_TOPIC
    assert decide(None, False) == POLLED


def test_a_topic_that_the_cluster_hides_is_not_read(decide):
    assert decide(None, error=topic_setup.NotShownError("lacks DESCRIBE")) == POLLED


def test_a_cluster_that_is_too_busy_to_answer_hides_nothing(decide, log):
    with pytest.raises(ClusterUnavailableError, match="no coordinator"):
        decide(None, error=topic_setup.NotYetError("no coordinator"))
    assert log.events == []


def test_what_the_settings_say_is_not_asked(decide, log):
    assert decide(commits={"source": "poll"}) == POLLED
    assert decide(commits={"source": "topic"}) == OFFSETS_TOPIC
    assert log.events == []


def test_a_pipeline_elsewhere_reads_the_offsets_topic_unless_it_is_told_otherwise(decide):
    assert decide(pipeline={"run": "elsewhere"}) == OFFSETS_TOPIC
    assert decide(pipeline={"run": "elsewhere"}, commits={"source": "poll"}) == POLLED


def test_connections_that_polling_cannot_make_end_the_start(decide):
    kafka = {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(ConfigurationError, match="OAUTHBEARER"):
        decide(False, kafka=kafka)
