"""The two writes of an order: what is in force was audited."""

import pytest

from levelwind.daemon.config.settings import load
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.levers import acting
from levelwind.daemon.levers.acting import act
from levelwind.daemon.levers.orders import Operator, OperatorOrder
from levelwind_testing.records import member, topic

SETTINGS = load()
KNOWN = [("metadata", topic()), ("members", member("m0", state="active"))]


@pytest.fixture
def pause(monkeypatch):
    """Pauses a group on brokers that do not answer for some topics: `pause({"topic"})`.

    Returns the topics that were written, in their order.
    """

    def pause(unanswered):
        written = []

        def write(_config, messages, **_):
            for message in messages:
                if message.topic in unanswered:
                    raise ClusterUnavailableError(message.topic)
                written.append(message.topic)

        monkeypatch.setattr(acting, "write", write)
        monkeypatch.setattr(acting, "partition_counts", lambda *_: {SETTINGS.topics.decisions: 4})
        order = OperatorOrder(action="pause", group="g")
        try:
            act(SETTINGS, order, Operator(name="me@here"), execute=True, records=KNOWN)
        except ClusterUnavailableError:
            assert unanswered
        return written

    return pause


def test_an_order_is_audited_before_it_is_in_force(pause):
    assert pause(set()) == [SETTINGS.topics.decisions, SETTINGS.topics.control]


def test_an_order_that_cannot_be_audited_is_not_in_force(pause):
    assert pause({SETTINGS.topics.decisions}) == []
