"""The documents of the API: what they say, and that each is what its model promises."""

from contextlib import closing
from dataclasses import replace
from urllib.parse import quote

import pytest

from levelwind.daemon.api import wire_models as models
from levelwind.daemon.shown_groups.partition_rows import partition_rows
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind_testing.page.api_client import ApiClient, wait_until_served
from levelwind_testing.page.scripted_groups import ScriptedGroup, ScriptedInstallation
from levelwind_testing.page.served_page import LEADER, ServedPage

GROUPS = (
    "orders-billing",
    "payments-ledger",
    "shipping-labels",
    "search-index",
    "fraud-scoring",
    "email/digest",
    "inventory-sync",
    "clickstream-etl",
)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/healthz", models.HealthDocument),
        ("/readyz", models.StatusDocument),
        ("/api/v1/status", models.StatusDocument),
        ("/api/v1/groups", models.GroupList),
        ("/api/v1/history", models.HistoryDocument),
        ("/api/v1/history/orders-billing", models.HistoryDocument),
        ("/api/v1/cluster", models.ClusterDocument),
        ("/api/v1/offsets/orders-billing", models.OffsetList),
        ("/api/v1/offsets/email/digest", models.OffsetList),
        ("/api/v1/pipeline", models.PipelineDocument),
        *((f"/api/v1/groups/{name}", models.GroupDocument) for name in GROUPS),
    ],
)
def test_a_document_is_what_its_model_promises(client, path, model):
    model.model_validate(client.document(path), strict=True)


def test_a_group_has_the_partitions_that_describe_prints(served, client):
    document = client.document("/api/v1/groups/payments-ledger")
    view = served.server._context.view.groups["payments-ledger"]
    rows = {(row["topic"], row["partition"]): row for row in partition_rows(ShownGroup(view))}
    assert len(rows) == 48
    for topic in document["topic"]:
        for number in range(topic["partitions"]):
            row = rows[topic["topic"], number]
            owner = topic["owner"][number]
            assert topic["lag"][number] == row["lag"]
            assert topic["committed"][number] == row["committed"]
            assert topic["end"][number] == row["end"]
            assert document["member"][owner]["instance"] == row["owner"]
            assert document["rack_sets"][topic["racks"][number]] == row["racks"]
            assert topic["local"][number] == (document["member"][owner]["rack"] in row["racks"])


def test_a_plan_comes_with_its_scores_and_its_certificate(client):
    plan = client.document("/api/v1/groups/orders-billing")["plan"]
    assert plan["before"]["skew"] > plan["after"]["skew"]
    assert plan["certificate"]["objectives"]["load"]["bound"] == plan["after"]["drain_seconds"]


def test_a_watched_group_has_no_plan_and_knows_its_owners(client):
    document = client.document("/api/v1/groups/email/digest")
    assert document["mode"] == "watched"
    assert document["plan"] is None
    assert {member["state"] for member in document["member"]} == {"watched"}
    assert all(owner >= 0 for topic in document["topic"] for owner in topic["owner"])


def test_groups_are_sorted_by_lag_searched_and_cut_into_pages(client):
    groups = client.document("/api/v1/groups?sort=lag")["groups"]
    lags = [group["lag"] for group in groups]
    assert lags == sorted(lags, reverse=True)
    found = {group["group"] for group in client.document("/api/v1/groups?search=in")["groups"]}
    assert found == {name for name in GROUPS if "in" in name}
    page = client.document("/api/v1/groups?limit=3&offset=2")
    assert [group["group"] for group in page["groups"]] == sorted(GROUPS)[2:5]
    assert page["total"] == len(GROUPS)


def test_an_unknown_group_is_a_document_with_a_reason(client):
    answer = client.get("/api/v1/groups/nobody")
    assert answer.status == 404
    assert answer.document == {"error": "no group 'nobody' is known here"}


def test_a_group_whose_name_has_a_line_break_is_itself_on_every_path():
    names = ("orders", "orders\n", "a\nb", "\n/\n")
    groups = [ScriptedGroup(name, number + 1, 1) for number, name in enumerate(names)]
    with closing(ServedPage(ScriptedInstallation(groups))) as served:
        client = ApiClient(served.url)
        wait_until_served(client)
        for number, name in enumerate(names):
            path = quote(name, safe="")
            shown = client.document(f"/api/v1/groups/{path}")
            assert (shown["group"], shown["partitions"]) == (name, number + 1)
            assert len(client.document(f"/api/v1/offsets/{path}")["offsets"]) == number + 1
            assert client.document(f"/api/v1/history/{path}")["groups"].keys() == {name}
            assert client.get(f"/api/v1/diff/{path}").status == 403  # no tokens: it has a route
        assert client.get("/api/v1/groups/orders%0A%0A").status == 404


def test_brokers_lead_and_hold_what_the_layouts_say(client):
    document = client.document("/api/v1/cluster")
    assert sum(broker["leads"] for broker in document["brokers"]) == document["partitions"]
    assert sum(broker["replicas"] for broker in document["brokers"]) == 2 * document["partitions"]
    assert [broker["broker"] for broker in document["brokers"] if not broker["online"]] == [5]
    assert [rack["brokers"] for rack in document["racks"]] == [[1, 4], [2, 5], [3, 6]]


def test_the_pipeline_shows_how_far_it_has_read(served, client):
    served.metrics.pipeline.on_event({"event": "pipeline.started"})
    document = client.document("/api/v1/pipeline")
    assert document["up"] is True
    assert document["inputs"].keys() == {"__consumer_offsets/7", "levelwind.metadata/0"}
    assert document["figures"]["up"] == 1


def test_a_daemon_that_stands_by_shows_nothing_of_a_pipeline_that_it_does_not_know(served, client):
    served.metrics.pipeline.on_event({"event": "pipeline.started"})
    served.readiness = replace(LEADER, role="standby", leader="host/2")
    try:
        document = client.document("/api/v1/pipeline")
    finally:
        served.readiness = LEADER
    models.PipelineDocument.model_validate(document, strict=True)
    assert document["up"] is None
    assert (document["figures"], document["rejected"], document["skipped"]) == ({}, {}, {})


def test_history_grows_by_a_point_at_a_time(served, client):
    before = client.document("/api/v1/history/orders-billing")
    served.take_points(2)
    after = client.document("/api/v1/history/orders-billing")
    assert len(after["at"]) >= len(before["at"]) + 2
    assert after["groups"]["orders-billing"]["lag"][-1] is not None
    shown = client.document("/api/v1/groups/orders-billing")
    assert after["groups"]["orders-billing"]["lag"][-1] == shown["lag"]


def test_metrics_are_those_of_the_metrics_endpoint(client):
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert b"levelwind_pipeline_up" in answer.body
    openmetrics = client.get("/metrics", Accept="application/openmetrics-text")
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"role": "starting", "caught_up": False}, 503),
        ({"role": "standby"}, 200),
        ({"role": "leader"}, 200),
        ({"role": "leader", "frozen": {"clock": "the clock jumped by 40 s"}}, 200),
    ],
)
def test_readiness_is_having_read_everything(served, client, changes, status):
    served.readiness = replace(LEADER, **changes)
    try:
        answer = client.get("/readyz")
        assert answer.status == status
        assert answer.document["role"] == changes["role"]
        assert answer.document["frozen"] == changes.get("frozen", {})
    finally:
        served.readiness = LEADER


def test_the_document_of_the_api_names_every_path(client):
    document = client.document("/api/v1/openapi.json")
    assert document["openapi"].startswith("3.1")
    for path in ("/healthz", "/readyz", "/metrics", "/api/v1/groups/{group}", "/api/v1/events"):
        assert path in document["paths"]
    assert all(
        operation["summary"] and operation["description"]
        for path in document["paths"].values()
        for operation in path.values()
    )
