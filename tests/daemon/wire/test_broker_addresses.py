"""Addresses of brokers, and hosts that are none."""

import asyncio

import pytest

from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.broker_connection import ConnectionFailedError, open_connection
from levelwind.daemon.wire.client_security import ClientSecurity

IPV6 = ("::1", "fe80::1%lo", "2001:db8::beef")


@pytest.mark.parametrize(
    ("bootstrap", "expected"),
    [
        ("kafka", (("kafka", 9092),)),
        ("a:1, b:65535,", (("a", 1), ("b", 65535))),
        ("SSL://a:9093,[::1]:9094,[::1]", (("a", 9093), ("::1", 9094), ("::1", 9092))),
        ("::1,fe80::1%lo,2001:db8::beef", tuple((host, 9092) for host in IPV6)),
        ("PLAINTEXT://a:9093/,b/", (("a", 9093), ("b", 9092))),
    ],
)
def test_a_list_of_brokers_is_read_as_librdkafka_reads_it(bootstrap, expected):
    assert addresses(bootstrap) == expected


@pytest.mark.parametrize("port", ["", "http", "-1", "²", "65536", "99999", "9" * 5000])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(ConfigurationError, match="is not HOST:PORT"):
        addresses(f"good:9092,127.0.0.1:{port}")


@pytest.mark.parametrize("host", ["a\0b", "a..b", "a" * 64])
def test_a_host_that_is_no_name_is_a_broker_that_cannot_be_reached(host):
    """Other brokers are asked then."""
    with pytest.raises(ConnectionFailedError, match=":9092: "):
        asyncio.run(open_connection(host, 9092, ClientSecurity(), "levelwind"))
