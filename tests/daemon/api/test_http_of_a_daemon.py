"""HTTP of real daemons on real brokers: readiness, orders through a standby, and the audit."""

import json

import pytest

from levelwind_testing.page.api_client import TOKEN, ApiClient
from levelwind_testing.page.served_page import write_tokens
from levelwind_testing.processes.daemon_process import DaemonProcess

pytestmark = pytest.mark.integration

BEARER = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


def start(cluster, directory, prefix, tokens):
    directory.mkdir()
    return DaemonProcess(
        cluster.bootstrap,
        directory,
        f"prefix={prefix}",
        "pipeline.run=elsewhere",
        "http.listen=127.0.0.1:0",
        f"http.token_file={tokens}",
    )


def client_of(daemon):
    (event,) = daemon.wait_for("an address", lambda: daemon.logged("http.listening"))
    return ApiClient(event["url"])


def racks(client):
    return client.document("/api/v1/cluster")["racks"]


def test_both_daemons_are_ready_and_either_takes_orders(cluster, tmp_path, fresh, eventually):
    prefix = fresh("lw") + "."
    tokens = write_tokens(tmp_path, **{"deploy-bot": TOKEN})
    first = start(cluster, tmp_path / "one", prefix, tokens)
    second = None
    try:
        one = client_of(first)
        eventually(lambda: one.get("/readyz").document["role"] == "leader")
        second = start(cluster, tmp_path / "two", prefix, tokens)
        two = client_of(second)
        assert two.get("/healthz").status == 200
        eventually(lambda: two.get("/readyz").status == 200)
        ready = two.get("/readyz").document
        assert ready["role"] == "standby"
        instance = one.document("/readyz")["instance"]
        eventually(lambda: two.document("/readyz")["leader"] == instance)
        # What the one observes, the other shows, too.
        eventually(lambda: len(two.document("/api/v1/cluster")["brokers"]) == 3)
        # Other tests make topics meanwhile, whose leaders count.
        eventually(lambda: racks(one) == racks(two))
        order = {"action": "pause", "group": "*", "reason": "a test", "execute": True}
        answer = two.request(
            "/api/v1/levers", method="POST", headers=BEARER, body=json.dumps(order).encode()
        )
        assert answer.status == 200, answer.body
        for client in (one, two):
            levers = eventually(lambda asked=client: asked.document("/api/v1/levers")["levers"])
            assert [(lever["kind"], lever["group"], lever["by"]) for lever in levers] == [
                ("pause", "*", "token:deploy-bot")
            ]
        entry = eventually(lambda: one.document("/api/v1/decisions")["decisions"])[0]
        assert (entry["outcome"], entry["cause"], entry["by"]) == (
            "ordered",
            "pause",
            "token:deploy-bot",
        )
        again = two.document(f"/api/v1/decisions/{entry['id']}")
        assert again["reason"] == "a test"
        assert b"levelwind_leading 1.0" in one.get("/metrics").body
        assert b"levelwind_leading 0.0" in two.get("/metrics").body
    finally:
        ends = [daemon.stop() for daemon in (second, first) if daemon is not None]
    assert ends == [0, 0]
    for daemon in (first, second):
        assert TOKEN not in daemon.tail()
        assert not any(TOKEN in json.dumps(event) for event in daemon.events)
