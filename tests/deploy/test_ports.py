"""Free ports are free."""

import socket
from itertools import islice

from levelwind.deploy.ports import HOST, answers, free_ports, is_free


def test_a_port_somebody_listens_on_is_not_free_and_answers():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not is_free(port)
        assert answers(port)
    assert not answers(port)


def test_no_port_is_offered_twice():
    offered = list(islice(free_ports(), 200))
    assert len(set(offered)) == 200
    assert all(is_free(port) for port in offered[:10])
