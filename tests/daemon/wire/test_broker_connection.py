"""Connections to real brokers, some of whose hosts are silent."""

import asyncio
import socket
from contextlib import suppress

import pytest

from levelwind.daemon.wire.broker_connection import (
    ConnectionFailedError,
    addresses,
    find_coordinator,
)
from levelwind.daemon.wire.client_security import client_security
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration

CLIENT_ID = "test"
HOURS = 4 * 3600.0
"""Time of a broker to answer, for which a test cannot wait."""


def test_a_silent_broker_does_not_hold_up_the_search_for_the_coordinator(client_config, fresh):
    brokers = addresses(client_config["bootstrap.servers"])
    security, group = client_security(client_config), fresh("group")

    def found(*bootstrap):
        return asyncio.run(find_coordinator(bootstrap, group, security, CLIENT_ID, HOURS))

    def has_coordinator():
        with suppress(ConnectionFailedError):
            return found(*brokers)

    wait_until("coordinator", has_coordinator)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and never answers
        assert found(silent.getsockname(), *brokers) in brokers, "long before its time is over"
