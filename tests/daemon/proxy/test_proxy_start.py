"""The start of the leader proxy where the system has no files left."""

import asyncio

import pytest

from levelwind.daemon.proxy.leader_proxy import LeaderProxy
from levelwind.daemon.proxy.settings import ProxySettings


def test_a_proxy_that_gets_no_loop_says_so_instead_of_letting_its_daemon_wait(monkeypatch, log):
    """The main thread waited for ever, and the daemon led on."""
    proxy = LeaderProxy(
        ("group",),
        {"bootstrap.servers": "127.0.0.1:1"},
        "proxy",
        ProxySettings(),
        dict,
        lambda *_: None,
        lambda *_: None,
        log,
    )

    def refuse():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(asyncio.events, "new_event_loop", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        proxy.start()
    proxy.stop()
