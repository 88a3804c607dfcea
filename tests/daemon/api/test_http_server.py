"""The server itself: its address, its guards, TLS, live changes, and its end."""

import http.client
import json
import socket
import ssl
import subprocess
import threading
import time
from contextlib import ExitStack, closing
from urllib.error import URLError

import pytest

from levelwind.daemon.api import (
    event_stream,
    http_server,
    operating_routes,
    probes,
    reading_routes,
)
from levelwind.daemon.api.access import certificate_file, guards
from levelwind.daemon.api.access.guards import (
    CONTENT_SECURITY_POLICY,
    LARGEST_BODY_BYTES,
    MOST_REQUESTS,
    PROBES,
)
from levelwind.daemon.api.http_server import HttpServer
from levelwind.daemon.api.views.decision_log import DecisionLog
from levelwind.daemon.api.views.live_view import LiveView
from levelwind.daemon.config import listen
from levelwind.daemon.config.http_section import HttpSection
from levelwind.daemon.config.settings import Settings
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.service.metrics import Metrics
from levelwind_testing.page.api_client import TOKEN, ApiClient, wait_until_served
from levelwind_testing.page.scripted_groups import ScriptedGroup, ScriptedInstallation
from levelwind_testing.page.served_page import ServedPage
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until


def start(**section):
    settings = Settings(http=HttpSection(**{"listen": "127.0.0.1:0", **section}))
    return HttpServer(settings, Metrics("1", now=time.time))


def test_every_answer_forbids_what_the_page_does_not_need(client):
    for path in ("/", "/page/main.js", "/api/v1/groups", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    for source in ("'unsafe-inline'", "'unsafe-eval'", "http:", "https:", "*"):
        assert source not in CONTENT_SECURITY_POLICY


def test_the_page_is_cached_by_its_hash(client):
    first = client.get("/page/main.js")
    again = client.request("/page/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert again.status == 304
    assert client.get("/page/..%2fweb_app.py").status == 404
    assert client.get("/page/nothing.js").status == 404


ASK_THE_CLUSTER = {"/api/v1/decisions/{name}", "/api/v1/diff/{group}"}
"""Routes that wait for brokers, which this server has not."""


def paths_of(client):
    """A path of each other route that answers GET, and those that send events."""
    group = client.document("/api/v1/groups")["groups"][0]["group"]
    routes = client.document("/api/v1/openapi.json")["paths"]
    found = {
        path.replace("{group}", group): route["get"]["responses"]["200"]
        for path, route in routes.items()
        if "get" in route and path not in ASK_THE_CLUSTER
    }
    streams = {path for path, answer in found.items() if "text/event-stream" in answer["content"]}
    rest = {"/", "/page/main.js", "/page/none.js", "/nothing", "/api/v1/openapi.json"}
    return (found.keys() | rest) - streams, streams


@pytest.mark.parametrize("headers", [{}, {"Authorization": f"Bearer {TOKEN}"}])
def test_head_is_answered_as_get_without_the_body(client, headers):
    paths, streams = paths_of(client)
    assert len(paths) > 15
    connection = http.client.HTTPConnection(client.url.removeprefix("http://"), timeout=60)

    def answer(method, path):
        # One connection: a body behind the answer to HEAD would be taken for the next answer.
        connection.request(method, path, headers=headers)
        got = connection.getresponse()
        return got.status, sorted(got.headers), got.headers["content-type"], len(got.read())

    with closing(connection):
        for path in sorted(paths):
            *expected, length = answer("GET", path)
            assert length > 0
            assert answer("HEAD", path) == (*expected, 0)
        assert [answer("HEAD", path)[0] for path in streams] == [405]


def test_another_host_is_refused_and_probes_are_not(client):
    assert client.get("/api/v1/groups", Host="evil.example").status == 421
    assert client.get("/", Host="evil.example:80").status == 421
    assert client.get("/healthz", Host="10.2.3.4:9470").status == 200
    assert client.get("/api/v1/groups", Host="LOCALHOST:9470").status == 200


def test_a_scrape_by_address_is_answered_beside_named_hosts():
    """Prometheus asks by a pod's address. A page that borrows this one's has a name."""
    with closing(start(hosts=["levelwind.example"])) as server:
        client = ApiClient(server.url)
        wait_until_served(client)
        hosts = ("10.1.2.3:9470", "10.1.2.3", "[fd00::5]:9470", "levelwind.example", "localhost")
        for host in hosts:
            assert client.get("/metrics", Host=host).status == 200, host
        for host in ("evil.example", "10.1.2.3.evil.example:9470", "fd00"):
            assert client.get("/metrics", Host=host).status == 421, host


def test_a_body_that_is_too_large_is_refused(client):
    answer = client.request(
        "/api/v1/levers",
        method="POST",
        # None of it is sent: what came after the answer would break the connection.
        headers={"Content-Length": str(LARGEST_BODY_BYTES + 1)},
    )
    assert answer.status == 413


def test_the_default_address_makes_way_for_another_process(monkeypatch):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigurationError, match="cannot listen on"):
            start(listen=busy)
        monkeypatch.setattr("levelwind.daemon.api.http_server.DEFAULT_LISTEN", busy)
        server = start(listen=busy)
        assert server.address != busy
        server.close()


@pytest.mark.parametrize("listen", ["localhost", "127.0.0.1:70000", "::1:80", "127.0.0.1:x"])
def test_an_address_that_is_none_is_refused(listen):
    with pytest.raises(ConfigurationError, match="is not ADDRESS:PORT"):
        start(listen=listen)


def certificate(directory, name):
    """Write a key and its certificate into one PEM file; return it and the certificate alone."""
    pem, alone = directory / f"{name}.pem", directory / f"{name}-certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", pem, "-out", alone, "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    pem.write_text(pem.read_text() + alone.read_text())
    return pem, alone


def test_tls_is_one_setting(tmp_path):
    pem, alone = certificate(tmp_path, "server")
    served = ServedPage(ScriptedInstallation([ScriptedGroup("g", 2, 1)]), tls_file=pem)
    try:
        trusted = ssl.create_default_context(cafile=alone)
        client = ApiClient(served.url, trusted)
        assert served.url.startswith("https://")
        assert wait_until_served(client).document == {"status": "ok"}
        with pytest.raises(OSError, match=r"reset|closed|Remote end|BadStatus"):
            ApiClient(served.url.replace("https", "http")).get("/healthz")
    finally:
        served.close()


def test_a_renewed_certificate_serves_new_connections_and_a_broken_one_none(
    tmp_path, log, monkeypatch
):
    monkeypatch.setattr(certificate_file, "log", log)
    monkeypatch.setattr("levelwind.daemon.api.http_server.INTERVAL_SECONDS", 0.05)
    pem, first = certificate(tmp_path, "first")
    renewed, second = certificate(tmp_path, "second")
    broken = tmp_path / "broken.pem"
    broken.write_text("half of a certificate")
    served = ServedPage(ScriptedInstallation([ScriptedGroup("g", 2, 1)]), tls_file=pem)

    def serves(trusted):
        client = ApiClient(served.url, ssl.create_default_context(cafile=trusted))
        try:
            return client.get("/healthz").status == 200
        except URLError:
            return False

    def logged(*expected):
        names = [f"http.certificate_{event}" for event in expected]
        wait_until(f"log of {names}", lambda: log.names == names, shown=lambda: log.events)

    try:
        client = ApiClient(served.url, ssl.create_default_context(cafile=first))
        wait_until_served(client)
        broken.replace(pem)
        logged("refused")
        assert serves(first)
        renewed.replace(pem)
        logged("refused", "renewed")
        assert serves(second)
        assert not serves(first)
        pem.unlink()
        logged("refused", "renewed", "refused")
        assert serves(second)
    finally:
        served.close()


def test_a_certificate_without_its_key_is_refused(tmp_path):
    pem = tmp_path / "server.pem"
    pem.write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"http\.tls_file: .* must hold a private key"):
        start(tls_file=pem)


def test_a_server_that_is_closed_answers_no_more():
    server = start()
    client = ApiClient(server.url)
    wait_until_served(client)
    server.close()
    with pytest.raises(OSError, match="refused"):
        client.get("/healthz")


BEGUN = b"POST /api/v1/levers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: local",
        BEGUN,
        BEGUN + b"{",
        BEGUN.replace(b"Content-Length: 9", b"Transfer-Encoding: chunked") + b"1\r\n{\r\n",
    ],
    ids=["nothing", "half a head", "no body", "half a body", "some chunks"],
)
def test_a_connection_whose_request_never_becomes_whole_is_closed(sent, monkeypatch):
    monkeypatch.setattr(http_server, "KEEP_ALIVE_SECONDS", 1)
    with closing(start()) as server:
        wait_until_served(ApiClient(server.url))
        host, _, port = server.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=GENEROUS_SECONDS) as silent:
            silent.sendall(sent)
            assert silent.recv(1) == b""


@pytest.mark.slow
def test_a_second_request_that_never_becomes_whole_is_ended_after_the_first_one(monkeypatch):
    monkeypatch.setattr(http_server, "KEEP_ALIVE_SECONDS", 1)
    with closing(start()) as server:
        wait_until_served(ApiClient(server.url))
        host, _, port = server.address.rpartition(":")

        def answered():
            """Ask; where the request was late, the connection had ended without an answer."""
            with socket.create_connection((host, int(port)), timeout=GENEROUS_SECONDS) as silent:
                silent.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + BEGUN)
                return silent.makefile("rb").read()

        answers = wait_until("an answer", answered)
    assert answers.startswith(b"HTTP/1.1 200 ")
    assert answers.count(b"HTTP/1.1") == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such limit")
@pytest.mark.parametrize("path", ["/metrics", "/api/v1/events"])
def test_a_connection_whose_answer_nobody_reads_is_closed(path, monkeypatch):
    asked = threading.Event()

    def large(*_):
        asked.set()
        return b"x" * 2**25  # more than the system's buffers take

    monkeypatch.setattr(listen, "KEEP_ALIVE_SECONDS", 1)
    monkeypatch.setattr(probes, "choose_encoder", lambda _: (large, "text/plain"))
    monkeypatch.setattr(event_stream, "encoded_event", large)
    with closing(start()) as server, socket.socket() as unread:
        wait_until_served(ApiClient(server.url))
        connections = server._server.server_state.connections
        host, _, port = server.address.rpartition(":")
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.connect((host, int(port)))
        unread.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert asked.wait(GENEROUS_SECONDS)
        wait_until("end of it", lambda: not connections and server._streams.open == 0)


def test_probes_are_answered_beside_any_number_of_silent_connections():
    with closing(start()) as server, ExitStack() as opened:
        client = ApiClient(server.url)
        wait_until_served(client)
        host, _, port = server.address.rpartition(":")
        address = host, int(port)
        for _ in range(MOST_REQUESTS):
            opened.enter_context(socket.create_connection(address, timeout=GENEROUS_SECONDS))
        connections = server._server.server_state.connections
        wait_until("all connections", lambda: len(connections) >= MOST_REQUESTS)
        for path in (*PROBES, "/metrics", "/api/v1/groups"):
            assert client.get(path).status == (503 if path == "/readyz" else 200)
        assert client.get("/readyz").document["role"] == "starting"


class SlowlyEncoded(dict):
    """A document whose encoding waits until the test lets it go on."""

    def __init__(self, document):
        super().__init__(document)
        self.begun, self.finish = threading.Event(), threading.Event()

    def items(self):
        self.begun.set()
        assert self.finish.wait(GENEROUS_SECONDS)
        return super().items()


class Whole:
    """An entry of the audit trail, and a row of offsets, with a document of the test."""

    def __init__(self, document):
        self.as_json = self._asdict = lambda **_: document


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/history?points=7",
        "/api/v1/groups/orders-billing",
        "/api/v1/offsets/orders-billing",
        "/api/v1/decisions?limit=1000",
        "/api/v1/decisions/1-0?inputs=true",
        "/api/v1/diff/orders-billing",
    ],
)
def test_others_are_answered_while_a_large_document_is_encoded(served, client, monkeypatch, path):
    slow = SlowlyEncoded({"partition": 0})  # not empty: the encoder would not ask for its items
    document = {"groups": slow}
    monkeypatch.setattr(LiveView, "history_document", lambda *_: document)
    monkeypatch.setattr(LiveView, "changed_in", lambda *_: -1)  # no state that is known already
    monkeypatch.setattr(DecisionLog, "page", lambda *_, **__: [slow])
    monkeypatch.setattr(reading_routes, "group_document", lambda _: document)
    monkeypatch.setattr(reading_routes, "offset_rows", lambda _: [Whole(slow)])
    monkeypatch.setattr(operating_routes, "find_decision", lambda *_: Whole(slow))
    monkeypatch.setattr(operating_routes, "moves_between", lambda *_: [slow])
    answers = []
    token = {"Authorization": f"Bearer {TOKEN}"}
    asking = threading.Thread(target=lambda: answers.append(client.get(path, **token)), daemon=True)
    asking.start()
    try:
        assert slow.begun.wait(GENEROUS_SECONDS)
        assert client.get("/healthz").status == 200
        assert answers == []
    finally:
        slow.finish.set()
        asking.join()
    assert [answer.status for answer in answers] == [200]


def test_the_history_of_one_moment_is_made_once_for_all_who_ask(monkeypatch):
    monkeypatch.setattr(http_server, "INTERVAL_SECONDS", GENEROUS_SECONDS)  # its own points
    made = []
    make = LiveView.history_document
    monkeypatch.setattr(
        LiveView, "history_document", lambda *given: made.append(given) or make(*given)
    )
    with closing(ServedPage(ScriptedInstallation([ScriptedGroup("g", 2, 1)]))) as served:
        client = ApiClient(served.url)
        wait_until_served(client)
        first = client.document("/api/v1/history?points=5")
        assert client.document("/api/v1/history?points=5") == first
        assert len(made) == 1
        served.take_points(1)
        assert client.document("/api/v1/history?points=5")["at"] != first["at"]
        assert len(made) == 2


def test_requests_beyond_the_most_are_refused_and_probes_are_not(
    served, client, monkeypatch, eventually
):
    streams = served.server._streams
    eventually(lambda: streams.open == 0)
    monkeypatch.setattr(guards, "MOST_REQUESTS", 1)
    with closing(_events(served)) as events:
        next(events)
        refused = client.get("/api/v1/groups")
        assert refused.status == 503
        assert refused.document == {"error": "too many requests at the same time"}
        assert [client.get(path).status for path in PROBES] == [200, 200]
    eventually(lambda: client.get("/api/v1/groups").status == 200)


@pytest.mark.slow
def test_changes_are_streamed_as_they_are_read(served):
    with closing(_events(served)) as events:
        status = next(events)
        first = next(events)
        assert status == ("status", {**status[1], "role": "leader", "levers": True})
        assert first[0] == "groups"
        assert first[1]["all"] is True
        assert len(first[1]["groups"]) == 8
        served.step(share=0.2)
        kind, change = next(events)
        assert kind == "groups"
        assert change["all"] is False
        assert {line["group"] for line in change["groups"]} <= {"orders-billing", "payments-ledger"}
        assert change["version"] > first[1]["version"]


def test_an_open_stream_ends_with_the_server_in_good_order(caplog):
    served = ServedPage(ScriptedInstallation([ScriptedGroup("g", 2, 1)]))
    wait_until_served(ApiClient(served.url))
    with closing(_events(served)) as events:
        next(events)
        next(events)
        served.close()
        assert list(events) == []
    assert [line for line in caplog.records if line.name.startswith("uvicorn")] == []


def test_streams_are_counted_and_bounded(served, client, monkeypatch, eventually):
    streams = served.server._streams
    eventually(lambda: streams.open == 0)
    monkeypatch.setattr("levelwind.daemon.api.event_stream.MOST_STREAMS", 1)
    with closing(_events(served)) as events:
        next(events)
        refused = client.get("/api/v1/events")
        assert refused.status == 503
        assert refused.document == {"error": "too many streams are open"}
        assert streams.open == 1
    eventually(lambda: streams.open == 0)


@pytest.mark.slow
def test_neither_a_token_nor_its_hash_is_ever_returned(client):
    document = client.document("/api/v1/openapi.json")
    for path in document["paths"]:
        if path != "/api/v1/events":
            answer = client.get(path.replace("{group}", "orders-billing"))
            assert TOKEN.encode() not in answer.body


def _events(served):
    host, _, port = served.server.address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=60)) as connection:
        connection.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        reader = connection.makefile("rb")
        name = None
        for raw in reader:
            line = raw.decode().strip()
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))
