"""The proxy with faults, between real sockets."""

import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from levelwind_testing.chaos.proxy_process import HELD, LinkFault, ProxyProcess
from levelwind_testing.chaos.tcp_proxy import client_id_of, party

WAIT_SECONDS = 10.0
SOON_SECONDS = 0.5


def request(client_id):
    """The beginning of a request of Kafka's, up to the client id."""
    return struct.pack(">ihhih", 64, 18, 3, 1, len(client_id)) + client_id


ME = request(b"me")


class Echo(threading.Thread):
    """A server that keeps what it receives, and sends it back."""

    def __init__(self):
        super().__init__(daemon=True)
        self.received = b""
        self.ended = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                while data := connection.recv(4096):
                    self.received += data
                    connection.sendall(data)
            except OSError:
                pass
        self.ended.set()


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.listener.close()


@pytest.fixture
def proxy():
    with ProxyProcess() as proxy:
        yield proxy


@pytest.fixture
def link(proxy, echo):
    """Connects through the proxy to the server."""
    port = proxy.listen("echo", echo.port)
    opened = []

    def connect():
        connection = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS)
        opened.append(connection)
        connection.sendall(ME)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def greeted(connection):
    """Read the answer to the request that a connection begins with."""
    assert connection.recv(4096) == ME
    return connection


def answered(connection, data, within=WAIT_SECONDS):
    """Whether the server's answer arrives in time."""
    connection.sendall(data)
    connection.settimeout(within)
    try:
        return connection.recv(4096) == data
    except TimeoutError:
        return False


def eventually(condition):
    until = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("client_id", "name"),
    [
        ("plain-3", "plain-3"),
        ("daemon", "daemon"),
        ("2", "broker-2"),
        ("raft-client-1", "broker-1"),
        ("broker-3-fetcher-0", "broker-3"),
        ("broker-3-txn-marker-sender", "broker-3"),
    ],
)
def test_a_client_id_names_a_party(client_id, name):
    assert party(client_id) == name


def test_a_client_id_is_read_once_it_is_complete():
    data = request(b"plain-3")
    assert [client_id_of(data[:size]) for size in (0, 13, len(data) - 1)] == [None] * 3
    assert client_id_of(data + b"more") == "plain-3"
    assert client_id_of(struct.pack(">ihhih", 64, 18, 3, 1, -1)) == ""


def test_bytes_go_both_ways_and_the_proxy_knows_whose_they_are(proxy, link):
    connection = greeted(link())
    assert answered(connection, b"hello")
    assert proxy.connections() == {"me echo": 1}
    connection.close()
    eventually(lambda: proxy.connections() == {})


def test_a_rule_about_others_does_nothing(proxy, link):
    connection = greeted(link())
    with proxy.during(
        LinkFault(sources=["other"], up=HELD), LinkFault(destinations=["other"], up=HELD)
    ):
        assert answered(connection, b"hello")


def test_a_delay_is_kept_and_ends_with_its_fault(proxy, link):
    connection = greeted(link())
    with proxy.during(LinkFault(sources=["me"], destinations=["echo"], up=0.2, down=0.2)):
        begun = time.monotonic()
        assert answered(connection, b"slow")
        assert time.monotonic() - begun >= 0.4
    assert answered(connection, b"fast")


def test_what_is_dropped_one_way_arrives_after_the_fault(proxy, link, echo):
    connection = greeted(link())
    numbers = proxy.begin(LinkFault(sources=["me"], up=HELD))
    assert not answered(connection, b"question", within=SOON_SECONDS)
    assert echo.received == ME
    proxy.end(numbers)
    connection.settimeout(WAIT_SECONDS)
    assert connection.recv(4096) == b"question"
    with proxy.during(LinkFault(sources=["me"], down=HELD)):
        assert not answered(connection, b"answer", within=SOON_SECONDS)
        eventually(lambda: echo.received == ME + b"questionanswer")
    assert connection.recv(4096) == b"answer"


def test_a_connection_into_a_black_hole_opens_and_stays_silent(proxy, link, echo):
    with proxy.during(LinkFault(up=HELD, down=HELD)):
        connection = link()
        connection.settimeout(SOON_SECONDS)
        with pytest.raises(TimeoutError):
            connection.recv(4096)
        assert echo.received == b""
    connection.settimeout(WAIT_SECONDS)
    assert greeted(connection)


def test_a_reset_breaks_a_connection(proxy, link, echo):
    connection = greeted(link())
    assert answered(connection, b"hello")
    assert proxy.reset(sources=["other"]) == 0
    assert proxy.reset(sources=["me"]) == 1
    with pytest.raises(ConnectionResetError):
        connection.recv(4096)
    assert echo.ended.wait(WAIT_SECONDS)


def test_bytes_of_a_killed_process_arrive_after_its_death(proxy, echo):
    port = proxy.listen("echo", echo.port)
    program = (
        "import socket, sys, time\n"
        f"s = socket.create_connection(('127.0.0.1', {port}))\n"
        f"s.sendall({request(b'victim')!r})\n"
        "sys.stdin.readline(); s.sendall(b'last words'); print('sent', flush=True)\n"
        "time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        eventually(lambda: proxy.connections() == {"victim echo": 1})
        numbers = proxy.begin(LinkFault(sources=["victim"], up=HELD))
        child.stdin.write(b"go\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"sent\n"
        child.kill()
    assert not echo.ended.wait(SOON_SECONDS)
    assert echo.received == request(b"victim")
    proxy.end(numbers)
    assert echo.ended.wait(WAIT_SECONDS)
    assert echo.received == request(b"victim") + b"last words"


def test_a_destination_that_is_down_refuses(proxy):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    through = proxy.listen("nobody", port)
    connection = socket.create_connection(("127.0.0.1", through), timeout=WAIT_SECONDS)
    with connection, suppress(ConnectionResetError):
        assert connection.recv(1) == b""
