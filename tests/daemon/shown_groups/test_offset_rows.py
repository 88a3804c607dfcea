"""Rows with the columns of `kafka-consumer-groups`, also beside the tool's own."""

import csv
import io
import json
from contextlib import ExitStack

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from msgspec.structs import replace

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import encode
from levelwind.daemon.cli.main import main
from levelwind.daemon.shown_groups.group_documents import group_document, group_summary
from levelwind.daemon.shown_groups.group_view import GroupViews
from levelwind.daemon.shown_groups.offset_rows import COLUMNS, offset_rows
from levelwind.daemon.shown_groups.partition_rows import partition_rows
from levelwind.daemon.shown_groups.shown_group import ShownGroup
from levelwind.daemon.wire.describe_requests import DescribedMember
from levelwind_testing.kafka.consumer_groups_tool import describe_group
from levelwind_testing.records import assignment, lag, topic


def view_of(*records):
    views = GroupViews()
    for kind, record in records:
        views.apply(kind, record)
    return ShownGroup(views.groups["g"])


def test_the_columns_are_those_of_the_tool_and_four_more():
    assert (
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
        *("CONSUMER-ID", "HOST", "CLIENT-ID", "RACK", "LOCAL", "SECONDS"),
        "SECONDS-LOWER-BOUND",
    ) == COLUMNS


def test_a_group_that_subscribes_has_a_row_for_each_partition_and_for_each_idle_member():
    measured = lag(
        *(60, 20, 0, 7),
        ends=(100, 100, 100, 7),
        racks=(("east",), ("west",), (), ("east",)),
        members=("a", "static"),
        member_racks=("east", "east"),
        owner=(0, 0, -1, 1),
        seconds=(1.25, 0.0, None, 3.0),
    )
    measured = replace(measured, committed=(40, 80, 100, -1))
    described = {
        "a": DescribedMember("a", None, "client-a", "/10.0.0.1"),
        "static": DescribedMember("static-1f", "static", "client-s", "/10.0.0.2"),
        "idle": DescribedMember("idle", None, "client-i", "/10.0.0.3"),
    }
    rows = [tuple(row)[1:12] for row in offset_rows(view_of(("lag", measured)), described)]
    assert rows == [
        ("t", 0, 40, 100, 60, "a", "/10.0.0.1", "client-a", "east", True, 1.2),
        ("t", 1, 80, 100, 20, "a", "/10.0.0.1", "client-a", "east", False, 0.0),
        ("t", 2, 100, 100, 0, None, None, None, None, None, None),
        ("t", 3, None, 7, 7, "static-1f", "/10.0.0.2", "client-s", "east", True, 3.0),
        (None, None, None, None, None, "idle", "/10.0.0.3", "client-i", None, None, None),
    ]
    by_lag = offset_rows(view_of(("lag", measured)), described, by_lag=True)
    assert [row.lag for row in by_lag] == [60, 20, 7, 0, None]


def test_a_wait_that_may_be_longer_is_marked_wherever_it_is_shown():
    measured = lag(
        *(600, 3, 9, 5),
        seconds=(42.0, 1.0, 7.0, None),
        seconds_lower_bound=(0, 2, 3),
        lag_upper_bound=(2,),
    )
    shown = view_of(("metadata", topic(racks=((),) * 4)), ("lag", measured))
    rows = offset_rows(shown)
    assert [row.seconds_lower_bound for row in rows] == [True, False, True, None]
    assert [row.texts()[-1] for row in rows] == ["≥42.0", "1.0", "≥7.0", "-"]
    assert [row["note"] for row in partition_rows(shown)] == [
        "waited at least this long",
        None,
        "upper bound: may count aborted records; waited at least this long",
        None,
    ]
    document = group_document(shown)
    assert (document["longest_wait_seconds"], document["wait_lower_bounds"]) == (42.0, 2)
    assert document["topic"][0]["seconds_lower_bound"] == [0, 2]
    exact = group_summary(view_of(("lag", replace(measured, seconds_lower_bound=()))))
    assert exact["wait_lower_bounds"] == 0


def test_a_partition_that_nobody_reads_and_nobody_has_committed_has_no_row():
    measured = lag(0, 5, members=("a",), owner=(-1, 0))
    measured = replace(measured, committed=(-1, 0))
    assert [row.partition for row in offset_rows(view_of(("lag", measured)))] == [1]


def test_a_managed_member_is_named_by_instance_and_incarnation_also_before_any_sample():
    granted = assignment("m0", ranges.by_topic([("t", 0), ("t", 2)]), group="g", rack="a")
    idle = assignment("m1", {}, group="g", rack="b")
    records = [("assignments", granted), ("assignments", idle), ("metadata", topic())]
    rows = [tuple(row)[1:9] for row in offset_rows(view_of(*records))]
    assert rows == [
        ("t", 0, None, None, None, f"m0/{granted.incarnation}", None, "m0"),
        ("t", 2, None, None, None, f"m0/{granted.incarnation}", None, "m0"),
        (None, None, None, None, None, f"m1/{idle.incarnation}", None, "m1"),
    ]


@pytest.mark.integration
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rows_agree_with_the_tool_on_real_brokers(
    protocol, topics, client_config, kafka, fresh, eventually
):
    name, group = fresh("t"), fresh("g")
    kafka.create(name, 3)
    producer = Producer(client_config)
    for number, count in enumerate((9, 5, 2)):
        for _ in range(count):
            producer.produce(name, b"x", partition=number)
    assert producer.flush(20) == 0
    more = {} if protocol == "classic" else {"group.protocol": "consumer"}
    with ExitStack() as stack:
        consumers = [
            Consumer(
                {
                    **client_config,
                    **more,
                    "group.id": group,
                    "client.id": f"client-{number}",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                }
            )
            for number in range(2)
        ]
        for consumer in consumers:
            stack.callback(consumer.close)
            consumer.subscribe([name])

        def shares():
            for consumer in consumers:
                consumer.poll(0.2)
            found = [[p.partition for p in consumer.assignment()] for consumer in consumers]
            return found if sorted(found[0] + found[1]) == [0, 1, 2] and all(found) else None

        owned = eventually(shares)
        first = owned[0][0]
        consumers[0].commit(offsets=[TopicPartition(name, first, 1)], asynchronous=False)
        tool = describe_group(client_config["bootstrap.servers"], group)
        ids = [tool[name, share[0]].owner for share in owned]
        ends = (9, 5, 2)
        behind = tuple(end - (n == first) for n, end in enumerate(ends))
        measured = lag(
            *behind,
            group=group,
            topic=name,
            ends=ends,
            members=tuple(ids),
            owner=tuple(int(n in owned[1]) for n in range(3)),
        )
        committed = tuple(1 if n == first else -1 for n in range(3))
        measured = replace(measured, committed=committed)
        key, value = encode(measured)
        producer.produce(topics.lag, value, key, partition=0)
        assert producer.flush(20) == 0
        options = ["--bootstrap", client_config["bootstrap.servers"]]
        options += ["--set", f"prefix={topics.prefix}"]
        shown = CliRunner().invoke(main, ["describe", group, *options, "--format", "csv"])
        assert shown.exit_code == 0, shown.output
        every = CliRunner().invoke(
            main, ["groups", "--partitions", *options, "--format", "json", "--sort", "lag"]
        )
    rows = list(csv.DictReader(io.StringIO(shown.stdout)))
    assert len(rows) == 3
    for row in rows:
        theirs = tool[row["TOPIC"], int(row["PARTITION"])]
        assert row["GROUP"] == group
        assert row["CURRENT-OFFSET"] == ("" if theirs.committed is None else str(theirs.committed))
        assert int(row["LOG-END-OFFSET"]) == theirs.end
        # The tool says nothing of a partition that was never committed; levelwind counts it.
        assert theirs.lag is None or int(row["LAG"]) == theirs.lag
        assert (row["CONSUMER-ID"], row["HOST"], row["CLIENT-ID"]) == (
            theirs.owner,
            theirs.host,
            theirs.client_id,
        )
    lags = [json.loads(line)["lag"] for line in every.stdout.splitlines()]
    assert lags == sorted(behind, reverse=True)
