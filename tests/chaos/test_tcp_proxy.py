"""The proxy with faults, between real sockets."""

import asyncio
import select
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from levelwind_testing.chaos.proxy_process import HELD, LinkFault, ProxyProcess
from levelwind_testing.chaos.tcp_proxy import Direction, client_id_of, party
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

ROUND_TRIPS = 5
"""How often another party's bytes go to and fro before a connection counts as silent."""
HOUR_SECONDS = 3600.0


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
        connection = socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_SECONDS)
        opened.append(connection)
        connection.sendall(ME)
        return connection

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def is_silent(proxy):
    """Whether nothing comes although another party's bytes go to and fro meanwhile."""
    server = Echo()
    port = proxy.listen("elsewhere", server.port)
    other = socket.create_connection(("127.0.0.1", port), timeout=GENEROUS_SECONDS)

    def is_silent(connection=None):
        for _ in range(ROUND_TRIPS):
            assert answered(other, request(b"other"))
        return connection is None or not has_come(connection)

    with other:
        yield is_silent
    server.listener.close()


def has_come(connection):
    """Whether a connection has something for its reader at this moment."""
    return bool(select.select([connection], [], [], 0)[0])


def greeted(connection):
    """Read the answer to the request that a connection begins with."""
    assert connection.recv(4096) == ME
    return connection


def answered(connection, data):
    """Whether the server's answer arrives."""
    connection.sendall(data)
    return connection.recv(4096) == data


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
    wait_until("end of the connection", lambda: proxy.connections() == {})


def test_a_rule_about_others_does_nothing(proxy, link):
    connection = greeted(link())
    with proxy.during(
        LinkFault(sources=["other"], up=HELD), LinkFault(destinations=["other"], up=HELD)
    ):
        assert answered(connection, b"hello")


def test_a_delay_is_kept_and_ends_with_its_fault(proxy, link, is_silent):
    connection = greeted(link())
    with proxy.during(LinkFault(sources=["me"], destinations=["echo"], up=0.2, down=0.2)):
        assert answered(connection, b"slow")
    for delay in ({"up": HOUR_SECONDS}, {"down": HOUR_SECONDS}):
        with proxy.during(LinkFault(sources=["me"], destinations=["echo"], **delay)):
            connection.sendall(b"late")
            assert is_silent(connection)
        assert connection.recv(4096) == b"late"
    assert answered(connection, b"fast")


def test_bytes_are_delayed_by_as_long_as_the_rule_says_since_they_came(monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)  # the event loop's clock, too
    written = []

    async def turns():
        for _ in range(20):
            await asyncio.sleep(0)

    async def story():
        nonlocal now
        reader = asyncio.StreamReader()
        direction = Direction(reader, Written(written), delay=60.0)
        running = asyncio.create_task(direction.run())
        reader.feed_data(b"first")
        await turns()
        now += 30.0
        reader.feed_data(b"second")
        await turns()
        now += 29.5
        await turns()
        assert written == []
        now += 1.0
        await turns()
        assert written == [b"first"]
        now += 29.0
        await turns()
        assert written == [b"first"]
        now += 1.0
        await turns()
        assert written == [b"first", b"second"]
        running.cancel()

    asyncio.run(story())


class Written:
    """A writer that keeps what it is given."""

    def __init__(self, written):
        self.write = written.append

    async def drain(self):
        pass


def test_what_is_dropped_one_way_arrives_after_the_fault(proxy, link, echo, is_silent):
    connection = greeted(link())
    numbers = proxy.begin(LinkFault(sources=["me"], up=HELD))
    connection.sendall(b"question")
    assert is_silent(connection)
    assert echo.received == ME
    proxy.end(numbers)
    assert connection.recv(4096) == b"question"
    with proxy.during(LinkFault(sources=["me"], down=HELD)):
        connection.sendall(b"answer")
        wait_until("arrival", lambda: echo.received == ME + b"questionanswer")
        assert is_silent(connection)
    assert connection.recv(4096) == b"answer"


def test_a_connection_into_a_black_hole_opens_and_stays_silent(proxy, link, echo, is_silent):
    with proxy.during(LinkFault(destinations=["echo"], up=HELD, down=HELD)):
        connection = link()
        wait_until("connection", lambda: "me echo" in proxy.connections())
        assert is_silent(connection)
        assert echo.received == b""
    assert greeted(connection)


def test_a_reset_breaks_a_connection(proxy, link, echo):
    connection = greeted(link())
    assert answered(connection, b"hello")
    assert proxy.reset(sources=["other"]) == 0
    assert proxy.reset(sources=["me"]) == 1
    with pytest.raises(ConnectionResetError):
        connection.recv(4096)
    assert echo.ended.wait(GENEROUS_SECONDS)


def test_bytes_of_a_killed_process_arrive_after_its_death(proxy, echo, is_silent):
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
        wait_until("request", lambda: echo.received == request(b"victim"))
        numbers = proxy.begin(LinkFault(sources=["victim"], up=HELD))
        child.stdin.write(b"go\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"sent\n"
        child.kill()
    assert is_silent()
    assert not echo.ended.is_set()
    assert echo.received == request(b"victim")
    proxy.end(numbers)
    assert echo.ended.wait(GENEROUS_SECONDS)
    assert echo.received == request(b"victim") + b"last words"


def test_a_destination_that_is_down_refuses(proxy):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    through = proxy.listen("nobody", port)
    connection = socket.create_connection(("127.0.0.1", through), timeout=GENEROUS_SECONDS)
    with connection, suppress(ConnectionResetError):
        assert connection.recv(1) == b""
