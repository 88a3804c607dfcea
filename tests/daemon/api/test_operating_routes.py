"""Levers, dry runs and the audit trail over HTTP: behind a token, one function for all."""

import json
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol.records import Tombstone
from levelwind.daemon.api import order_models as models
from levelwind.daemon.api.views.decision_log import DecisionLog
from levelwind.daemon.decisions.encoding import entry_parts
from levelwind_testing import records
from levelwind_testing.page.api_client import TOKEN, ApiClient, wait_until_served
from levelwind_testing.page.scripted_decisions import scripted_decisions
from levelwind_testing.page.scripted_groups import START_MS, ScriptedGroup, ScriptedInstallation
from levelwind_testing.page.served_page import SECRET, ServedPage

BEARER = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


def give(client, order, headers=BEARER):
    body = json.dumps(order).encode()
    return client.request("/api/v1/levers", method="POST", headers=headers, body=body)


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/api/v1/levers", "POST"),
        ("/api/v1/diff/orders-billing", "GET"),
        ("/api/v1/settings", "GET"),
        ("/api/v1/decisions/1-0/replay", "POST"),
    ],
)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong-horse-battery-staple"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Cookie": f"token={TOKEN}"},
    ],
)
def test_whatever_acts_or_plans_needs_a_token(client, path, method, headers):
    order = b'{"action": "pause", "group": "orders-billing", "execute": true}'
    headers = {"Content-Type": "application/json", **headers}
    answer = client.request(path, method=method, headers=headers, body=order)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.document == {"error": "give a token of http.token_file"}


def test_a_token_in_the_path_opens_nothing(client):
    order = b'{"action": "pause", "group": "orders-billing"}'
    assert (
        client.request(
            f"/api/v1/levers?token={TOKEN}",
            method="POST",
            headers={"Content-Type": "application/json"},
            body=order,
        ).status
        == 401
    )


def test_a_daemon_without_tokens_takes_no_orders():
    served = ServedPage(ScriptedInstallation([ScriptedGroup("g", 2, 1)]))
    try:
        client = ApiClient(served.url)
        wait_until_served(client)
        answer = give(client, {"action": "pause", "group": "g"})
        assert answer.status == 403
        assert "http.token_file" in answer.document["error"]
    finally:
        served.close()


def test_a_dry_run_shows_the_plan_and_changes_nothing(client):
    answer = give(client, {"action": "drain", "group": "orders-billing", "subject": "orders-001"})
    assert answer.status == 200, answer.body
    outcome = answer.document
    models.OutcomeDocument.model_validate(outcome, strict=True)
    assert outcome["executed"] is False
    assert [lever["kind"] for lever in outcome["after"]] == ["drain"]
    assert outcome["after"][0]["by"] == "token:deploy-bot"
    moves = outcome["preview"]["moves"]
    assert {move["from"] for move in moves if move["to"] != "orders-001"} >= {"orders-001"}
    assert "orders-001" not in outcome["preview"]["target"] or not any(
        outcome["preview"]["target"]["orders-001"].values()
    )
    assert client.document("/api/v1/levers") == {"levers": []}


def test_an_order_that_is_not_whole_says_why(client):
    for order, reason in (
        ({"action": "pin", "group": "orders-billing", "subject": "t/0"}, "name the member"),
        ({"action": "drain", "group": "orders-billing"}, "name what it is about"),
        ({"action": "rebalance", "group": "*"}, "one group at a time"),
    ):
        answer = give(client, order)
        assert answer.status == 400, answer.body
        assert reason in answer.document["error"]
    assert give(client, {"action": "rebalance", "group": "nobody"}).status == 404
    assert give(client, {"action": "explode", "group": "g"}).status == 422
    assert give(client, {"action": "pause", "group": "g", "sudo": True}).status == 422
    assert client.request(
        "/api/v1/levers", method="POST", headers=BEARER, body=b"[" * 100_000
    ).status in {400, 422}


@pytest.mark.slow
def test_an_order_without_a_cluster_is_not_executed(client):
    answer = give(
        client, {"action": "pause", "group": "orders-billing", "reason": "x", "execute": True}
    )
    assert answer.status == 503
    assert client.document("/api/v1/levers") == {"levers": []}


def test_a_token_is_in_no_answer_and_in_no_log_line(client, caplog, capsys):
    for order in ({"action": TOKEN, "group": TOKEN}, {"action": "pause", "group": ""}):
        answer = give(client, order, BEARER | {"X-Other": TOKEN})
        assert TOKEN.encode() not in answer.body.replace(b'"group":"' + TOKEN.encode(), b"")
    give(client, {"action": "pause", "group": "g"}, {"Authorization": f"Bearer {TOKEN}x"})
    written = caplog.text + "".join(capsys.readouterr())
    assert TOKEN not in written


def test_settings_are_shown_without_secrets_and_with_what_levers_override(served, client):
    lever = records.lever("drain", "m1", group="orders-billing", by="anna")
    served.control(lever)
    try:
        answer = client.get("/api/v1/settings", **BEARER)
        models.SettingList.model_validate(answer.document, strict=True)
        shown = {row["path"]: row["value"] for row in answer.document["settings"]}
        assert shown["control.strategy"] == "optimal"
        assert "kafka.sasl.password" in shown
        assert SECRET.encode() not in answer.body
        assert any("drain" in row["path"] for row in answer.document["overrides"])
    finally:
        served.control(Tombstone(key=lever.key))


def test_levers_in_force_are_listed(served, client):
    lever = records.lever("pause", group="orders-billing", by="anna")
    served.control(lever)
    try:
        document = client.document("/api/v1/levers")
        models.LeverList.model_validate(document, strict=True)
        assert [each["kind"] for each in document["levers"]] == ["pause"]
    finally:
        served.control(Tombstone(key=lever.key))
    assert client.document("/api/v1/levers") == {"levers": []}


def test_decisions_are_listed_the_newest_first_by_group_and_time(served, client):
    for part in scripted_decisions(START_MS):
        served.decisions.log.add(part)
    document = client.document("/api/v1/decisions")
    models.DecisionList.model_validate(document)
    times = [entry["at"] for entry in document["decisions"]]
    assert times == sorted(times, reverse=True)
    assert times[0] == START_MS
    only = client.document("/api/v1/decisions?group=payments-ledger&limit=3")["decisions"]
    assert [entry["group"] for entry in only] == ["payments-ledger"] * 3
    older = client.document(f"/api/v1/decisions?before={only[-1]['at']}&limit=1")["decisions"]
    assert older[0]["at"] < only[-1]["at"]


def test_pages_lose_no_decision_of_one_moment_and_are_filtered_by_outcome():
    served = ServedPage(ScriptedInstallation([ScriptedGroup("g", 2, 1)]))
    with closing(served):
        client = ApiClient(served.url)
        wait_until_served(client)
        for number in range(25):
            outcome = "failed" if number == 3 else "suppressed"
            for part in decided_at(5, f"g{number}", outcome):
                served.decisions.log.add(part)
        seen, query = [], "limit=10"
        while page := client.document(f"/api/v1/decisions?{query}")["decisions"]:
            seen += [entry["group"] for entry in page]
            query = f"limit=10&before={page[-1]['at']}&before_id={page[-1]['id']}"
        assert sorted(seen) == sorted(f"g{number}" for number in range(25))
        failed = client.document("/api/v1/decisions?outcome=failed&limit=1")["decisions"]
        assert [entry["group"] for entry in failed] == ["g3"]
        assert client.get("/api/v1/decisions?outcome=exploded").status == 422
        refused = client.get("/api/v1/decisions?before_id=5-a")
        assert (refused.status, refused.document) == (
            422,
            {"error": "before_id: give the time of that decision as `before`, too"},
        )


def decided_at(at, group, outcome="suppressed"):
    return entry_parts(group=group, at=at, outcome=outcome, cause="skew", plan_id=None, body={})


decided = st.lists(
    st.tuples(
        st.sampled_from(["payments", "orders", "*"]),
        st.integers(0, 40),
        st.sampled_from(["suppressed", "failed"]),
    ),
    max_size=30,
)


@given(
    decided=decided, most=st.integers(1, 12), limit=st.integers(1, 12), before=st.integers(0, 40)
)
def test_the_log_keeps_the_newest_by_time_in_whatever_order_they_are_read(
    decided, most, limit, before
):
    log = DecisionLog(most)
    written = {}
    for group, at, outcome in decided:
        (part,) = decided_at(at, group, outcome)
        log.add(part)
        written[at, part.id, group] = {
            "group": group,
            "at": at,
            "id": part.id,
            "outcome": outcome,
        }
    kept = [written[key] for key in sorted(written, reverse=True)[:most]]

    def shown(*query, **named):
        fields = ("group", "at", "id", "outcome")
        return [{name: entry[name] for name in fields} for entry in log.page(*query, **named)]

    assert shown() == kept
    of_group = [entry for entry in kept if entry["group"] in {"orders", "*"}]
    assert shown("orders", limit) == of_group[:limit]
    earlier = [entry for entry in kept if entry["at"] < before]
    assert shown(None, limit, before) == earlier[:limit]
    assert shown(outcome="failed") == [entry for entry in kept if entry["outcome"] == "failed"]
    paged, cursor = [], {}
    while page := shown(limit=limit, **cursor):
        paged += page
        cursor = {"before": page[-1]["at"], "before_id": page[-1]["id"]}
    assert paged == kept


def test_the_log_keeps_the_newest_and_waits_for_all_parts():
    log = DecisionLog(most=2)
    large = {"kind": "plan", "reason": None, "noise": [str(n * n) for n in range(400_000)]}
    parts = entry_parts(
        group="g", at=5, outcome="published", cause="skew", plan_id="1-0", body=large
    )
    assert len(parts) > 1
    for part in parts[:-1]:
        log.add(part)
    assert log.page() == []
    log.add(parts[-1])
    log.add(parts[-1])  # a part whose decision is complete begins none
    assert [entry["at"] for entry in log.page()] == [5]
    for part in scripted_decisions(1_000_000, 5):
        log.add(part)
    assert len(log.page()) == 2
