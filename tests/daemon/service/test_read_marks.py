"""Questions for the ends of levelwind's topics, on real brokers."""

import pytest

from levelwind.daemon.config.settings import load
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka.topic_follower import TopicFollower
from levelwind.daemon.kafka.topic_setup import ensure_topics
from levelwind.daemon.service.leadership import ReadUntil
from levelwind.daemon.service.mailbox import Mailbox
from levelwind.daemon.service.read_marks import ReadMarks
from levelwind.daemon.service.record_intake import RecordIntake
from levelwind_testing.kafka.reassignment import lead_again

pytestmark = pytest.mark.integration

LOOKS = 50
"""Looks into the mailbox before the question is asked again."""


@pytest.fixture
def settings(cluster, topics):
    return load(overrides={"bootstrap": cluster.bootstrap, "prefix": topics.prefix})


def test_a_mark_follows_also_after_the_leaders_changed(settings, topics, log, eventually):
    partitions = ensure_topics(settings.client(), topics, settings.topic, log)
    mailbox = Mailbox()
    intake = RecordIntake(topics, partitions, mailbox, log, instance="me")
    follower = TopicFollower(
        client_config=settings.client(), topics=topics, on_record=intake.on_record, log=log
    )
    marks = ReadMarks(settings, partitions, follower, intake, mailbox)
    follower.start()

    def marked():
        try:
            marks.ask()
        except ClusterUnavailableError:
            return False
        looks = (mailbox.take(0.1) for _ in range(LOOKS))
        return any(isinstance(event, ReadUntil) for events in looks for event in events)

    eventually(marked)
    for number in range(partitions[topics.members]):
        lead_again(settings.bootstrap, topics.members, number)
    eventually(marked)
    follower.stop()
