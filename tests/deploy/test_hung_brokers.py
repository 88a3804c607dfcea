"""The report of a failed test names brokers that hang, and shows their threads."""

import socket

import pytest

from levelwind.deploy.broker_config import Node
from levelwind.deploy.ports import HOST
from levelwind_testing.kafka import hung_brokers
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def hung():
    """A broker that accepts connections and answers nothing."""
    with socket.create_server((HOST, 0)) as listener:
        yield Node(id=9, rack=None, port=listener.getsockname()[1], controller_port=0)


def test_a_broker_without_answers_hangs_and_the_others_do_not(cluster, hung, monkeypatch):
    monkeypatch.setattr(hung_brokers, "ANSWER_SECONDS", 2.0)
    nodes = [*cluster.nodes, hung]
    wait_until("the hung one alone", lambda: hung_brokers.silent(nodes) == {hung.id})
    wait_until(
        "its report alone",
        lambda: (
            hung_brokers.hung_brokers(nodes, cluster.directory)
            == "broker 9 hangs\nits process has ended"
        ),
    )


def test_the_threads_that_serve_requests_are_shown(cluster):
    shown = hung_brokers.threads(cluster.directory, broker=1)
    assert "request-handler-0" in shown
    assert "network-thread-1" in shown
    assert "at java" in shown
