"""Connections to real brokers, some of whose hosts are silent."""

import asyncio
import socket
import time
from contextlib import suppress

import pytest

from daemon.proxy.wire.broker_connection import (
    OPEN_SECONDS,
    ConnectionFailedError,
    addresses,
    find_coordinator,
)
from daemon.proxy.wire.client_security import client_security

pytestmark = pytest.mark.integration

CLIENT_ID = "test"


def test_a_silent_broker_does_not_hold_up_the_search_for_the_coordinator(
    client_config, fresh, eventually
):
    brokers = addresses(client_config["bootstrap.servers"])
    security, group = client_security(client_config), fresh("group")

    def found(*bootstrap):
        return asyncio.run(find_coordinator(bootstrap, group, security, CLIENT_ID))

    def has_coordinator():
        with suppress(ConnectionFailedError):
            return found(*brokers)

    eventually(has_coordinator)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and never answers
        began = time.monotonic()
        assert found(silent.getsockname(), *brokers) in brokers
        assert time.monotonic() - began < OPEN_SECONDS
