"""Addresses to listen on: every address is that of both families, where the kernel has both."""

import errno
import os
import socket
import time
from contextlib import closing

import pytest

from levelwind.daemon.api.http_server import HttpServer
from levelwind.daemon.config.http_section import HttpSection
from levelwind.daemon.config.listen import listen_address
from levelwind.daemon.config.settings import Settings
from levelwind.daemon.service.metrics import Metrics, serve

LOOPBACKS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
CLASS = socket.socket


def families():
    """The families of addresses that this machine has."""
    for family, loopback in LOOPBACKS.items():
        try:
            with socket.socket(family) as probe:
                probe.bind((loopback, 0))
        except OSError:
            continue
        yield family


@pytest.fixture(params=["http", "metrics"])
def opened(request):
    """Opens a server of either kind at an address; returns its port."""
    servers = []

    def open_at(address):
        metrics = Metrics("1", now=time.time)
        server = (
            HttpServer(Settings(http=HttpSection(listen=address)), metrics)
            if request.param == "http"
            else serve(address, metrics.registry)
        )
        servers.append(server)
        return int(server.address.rpartition(":")[2])

    yield open_at
    for server in servers:
        server.close()


@pytest.fixture
def no_ipv6(monkeypatch):
    """A kernel without IPv6."""

    class OneFamily(CLASS):
        def __init__(self, family=socket.AF_INET, *arguments, **options):
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
            super().__init__(family, *arguments, **options)

    monkeypatch.setattr(socket, "socket", OneFamily)


@pytest.fixture
def ipv6_only(monkeypatch):
    """A kernel with net.ipv6.bindv6only = 1."""

    class OfOneFamily(CLASS):
        def __init__(self, family=socket.AF_INET, *arguments, **options):
            super().__init__(family, *arguments, **options)
            if family == socket.AF_INET6 and "fileno" not in options:
                self.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)

    monkeypatch.setattr(socket, "socket", OfOneFamily)


def test_an_address_without_a_host_answers_in_every_family(opened):
    port = opened(":0")
    for family in families():
        with closing(socket.create_connection((LOOPBACKS[family], port), 5)) as connection:
            assert connection.family == family


@pytest.mark.skipif(socket.AF_INET6 not in families(), reason="this machine has no IPv6")
def test_it_does_so_where_sockets_of_ipv6_are_of_that_family_alone(opened, ipv6_only):
    port = opened(":0")
    for family in families():
        socket.create_connection((LOOPBACKS[family], port), 5).close()


def test_without_ipv6_it_answers_by_the_other(opened, no_ipv6):
    port = opened(":0")
    socket.create_connection(("127.0.0.1", port), 5).close()


def test_a_host_is_taken_as_it_is():
    assert listen_address("http.listen", "0.0.0.0:80") == ("0.0.0.0", 80)  # noqa: S104
    assert listen_address("http.listen", "[::1]:80") == ("::1", 80)
