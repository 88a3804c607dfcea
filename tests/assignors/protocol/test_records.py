"""Records of levelwind's topics: their bytes, their schemas, and what is refused."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from levelwind.assignors.protocol import records as r
from levelwind.assignors.protocol.records import schemas
from levelwind.assignors.protocol.records.cut import Cut
from levelwind.assignors.protocol.records.pipeline import BY_PARTITION, PARTITION_SETS
from levelwind.assignors.protocol.topics import partition_for
from levelwind_testing.examples import examples

name = st.text(min_size=1, max_size=8)
text = st.text(max_size=8)
whole = st.integers(0, 2**63 - 1)
offset = st.integers(-1, 2**63 - 1)
epoch = st.integers(0, 2**40)
time = st.integers(0, 253_402_300_799_999)
rack = st.none() | name
rack_set = st.lists(text, max_size=2).map(tuple)
number = st.floats(allow_nan=False, allow_infinity=False)
figure = st.none() | st.floats(min_value=0, max_value=1e12)
capacity = st.floats(min_value=1e-6, max_value=1e6)
partitions = st.dictionaries(
    name, st.sets(st.integers(0, 300), min_size=1).map(lambda s: tuple(sorted(s))), max_size=3
)
partition_text = st.builds("{}/{}".format, name, st.integers(0, 300))
source = st.dictionaries(name, offset, max_size=2)
score = st.none() | st.dictionaries(name, st.none() | number, max_size=3)


def column(values, length):
    return st.lists(values, min_size=length, max_size=length).map(tuple)


def columns(draw, length, **kinds):
    return {field: draw(column(values, length)) for field, values in kinds.items()}


@st.composite
def topic_records(draw):
    sets = st.lists(st.integers(0, 9), max_size=3).map(tuple)
    lists = columns(
        draw,
        draw(st.integers(0, 4)),
        leader=offset,
        replicas=sets,
        isr=sets,
        racks=st.lists(text, max_size=2).map(tuple),
    )
    return r.TopicRecord(topic=draw(name), at=draw(whole), id=draw(name), **lists)


@st.composite
def offsets_records(draw):
    pairs = st.lists(st.tuples(whole, whole), max_size=2).map(
        lambda drawn: tuple(sorted(offset for pair in drawn for offset in pair))
    )
    lists = columns(
        draw,
        draw(st.integers(0, 4)),
        begin=offset,
        stable=offset,
        high=offset,
        data_end=offset,
        gaps=pairs,
    )
    for field in draw(st.sets(st.sampled_from(["data_end", "gaps"]))):
        del lists[field]
    offsets_topic_ends = draw(st.none() | st.lists(whole, max_size=3).map(tuple))
    return r.OffsetsRecord(
        topic=draw(name),
        at=draw(whole),
        id=draw(name),
        offsets_topic_ends=offsets_topic_ends,
        **lists,
    )


def some_of(count):
    """Numbers of partitions, given how many there are."""
    return st.lists(st.integers(0, count - 1), max_size=2).map(tuple) if count else st.just(())


@st.composite
def lag_records(draw):
    count = draw(st.integers(0, 4))
    lists = columns(
        draw,
        count,
        committed=offset,
        committed_at=offset,
        begin=offset,
        end=offset,
        lag=whole,
        lost=whole,
        racks=st.lists(text, max_size=2).map(tuple),
        rate=figure,
        velocity=figure,
        seconds=figure,
        end_read_at=offset,
        data_end=offset,
        unclaimed=offset,
        owner=st.integers(-1, 1),
        local=st.none() | st.booleans(),
    )
    optional = ["rate", "velocity", "seconds", "end_read_at", "data_end", "unclaimed"]
    optional += ["owner", "local"]
    chosen = draw(st.sets(st.sampled_from(optional)))
    lists = {
        field: values for field, values in lists.items() if field in chosen or field not in optional
    }
    return r.LagRecord(
        group=draw(name),
        topic=draw(name),
        at=draw(whole),
        id=draw(name),
        end_kind=draw(st.sampled_from(["stable", "high"])),
        **{name: draw(some_of(count)) for name in PARTITION_SETS},
        source=draw(source),
        members=draw(st.tuples(name, name)) if "owner" in chosen else (),
        member_racks=draw(st.none() | st.tuples(rack, rack)) if "owner" in chosen else None,
        others=(others := draw(st.just(()) | st.tuples(name, name))),
        other_racks=draw(st.none() | st.tuples(rack, rack)) if others else None,
        non_readers=draw(st.lists(name, max_size=2).map(tuple)),
        **lists,
    )


change = st.builds(
    r.RackChange,
    before=st.lists(text, max_size=2).map(tuple),
    after=st.lists(text, max_size=2).map(tuple),
)
evidence = st.builds(
    r.RacksEvidence,
    topics=st.dictionaries(
        name, st.dictionaries(st.integers(0, 2**31 - 1), change, max_size=2), max_size=2
    ),
) | st.builds(
    r.SkewEvidence,
    backlog=whole,
    assumed=st.booleans(),
    members=st.dictionaries(
        name,
        st.builds(r.MemberLoad, seconds=number, backlog=whole, arrivals=number, capacity=number),
        max_size=2,
    ),
    **dict.fromkeys(
        (
            "heaviest",
            "best",
            "threshold",
            "floor_seconds",
            "utilisation",
            "best_utilisation",
            "utilisation_limit",
            "arrivals",
            "capacity",
            "horizon",
            "skew",
        ),
        number,
    ),
)

planned_topics = st.dictionaries(
    name,
    st.builds(
        r.PlannedTopic,
        new_from=st.none() | whole,
        id=name,
        partitions=whole,
        racks=st.none()
        | st.builds(r.PlannedRacks, at=time, racks=st.lists(rack_set, max_size=5).map(tuple)),
    ),
    max_size=2,
)
planned_members = st.lists(
    st.builds(
        r.PlannedMember,
        pattern=st.none() | name,
        instance=name,
        incarnation=name,
        rack=rack,
        capacity=capacity,
        priority=st.integers(-(2**31), 2**31 - 1),
        topics=st.none() | st.lists(name, max_size=2).map(tuple),
    ),
    max_size=2,
).map(tuple)
shards = st.none() | st.builds(Cut, count=st.integers(1, 10_000), digest=name)
HEAD_KEYS = {
    "lag": st.tuples(st.just("lag"), name, name) | st.tuples(st.just("speed"), name),
    "triggers": st.tuples(st.sampled_from(["racks", "skew"]), name),
}
"""By topic, the keys of records that are cut as text."""
RECORDS = {
    ("metadata", r.BrokerRecord): st.builds(
        r.BrokerRecord,
        broker=whole,
        at=whole,
        rack=rack,
        online=st.booleans(),
        follower_fetching=st.none() | st.booleans(),
    ),
    ("metadata", r.TopicRecord): topic_records(),
    ("metadata", r.OffsetsRecord): offsets_records(),
    ("lag", r.LagRecord): lag_records(),
    ("lag", r.SpeedRecord): st.builds(
        r.SpeedRecord,
        group=name,
        at=whole,
        members=st.dictionaries(
            name,
            st.builds(
                r.MemberSpeed,
                speed=st.floats(min_value=1e-6, max_value=1e12),
                sure=st.floats(min_value=0, max_value=1),
            ),
            max_size=3,
        ),
    ),
    **{
        (topic, kind): record
        for topic, head_key in HEAD_KEYS.items()
        for kind, record in (
            (r.CutRecord, st.builds(r.CutRecord, key=head_key, bytes=whole, shards=shards)),
            (
                r.TextShard,
                st.builds(r.TextShard, head_key=head_key, shard=whole, digest=name, text=name),
            ),
        )
    },
    ("triggers", r.TriggerRecord): st.builds(
        r.TriggerRecord, group=name, at=whole, since=whole, evidence=evidence, source=source
    ),
    ("triggers", r.PipelineRecord): st.builds(
        r.PipelineRecord,
        at=time,
        epoch=epoch,
        instance=name,
        daemon=st.none() | name,
        started_at=time,
        interval_ms=st.integers(1, 10**6),
        state=st.sampled_from(["starting", "catching_up", "running", "ended"]),
        error=st.none() | st.text(max_size=5),
        rebuilt=st.booleans(),
        batch=st.none() | whole,
        batches=whole,
        batch_ms=st.none() | whole,
        delay_ms=st.none() | whole,
        newest=st.none() | time,
        behind=st.none() | whole,
        caught_up=st.none() | st.floats(0, 1),
        rows=whole,
        state_rows=st.none() | whole,
        state_bytes=st.none() | whole,
        phases=st.dictionaries(name, whole, max_size=3),
        rejected=st.dictionaries(name, whole, max_size=3),
        skipped=st.dictionaries(name, whole, max_size=3),
    ),
    ("dead_letters", r.DeadLetter): st.builds(
        r.DeadLetter,
        at=whole,
        topic=name,
        partition=whole,
        offset=whole,
        reason=name,
        raw_key=st.none() | st.binary(max_size=5),
        raw_value=st.none() | st.binary(max_size=5),
    ),
    ("replays", r.ReplayRecord): st.builds(
        r.ReplayRecord,
        at=whole,
        topic=name,
        partition=whole,
        offset=st.integers(0, 2**62),
        timestamp=whole,
        until=st.integers(2**62 + 1, 2**63 - 1),
        raw_key=st.none() | st.binary(max_size=5),
        raw_value=st.none() | st.binary(max_size=5),
    ),
    ("members", r.MemberRecord): st.builds(
        r.MemberRecord,
        group=name,
        instance=name,
        incarnation=name,
        client=name,
        client_version=name,
        topics=st.lists(name, max_size=2).map(tuple),
        rack=rack,
        priority=st.integers(-(2**31), 2**31 - 1),
        capacity=st.floats(min_value=1e-6, max_value=1e6),
        state=st.sampled_from(["joining", "active", "left"]),
        planner_epoch=epoch,
        acked_epoch=epoch,
        owned=partitions,
        starting=partitions,
        nack=st.none() | st.builds(r.Nack, epoch=epoch, code=name),
        features=st.lists(name, max_size=2).map(tuple),
        heartbeat=st.integers(0, 2**53),
        hold_ms=st.integers(1, 3_600_000),
        commit_ms=st.integers(1, 3_600_000),
        max_poll_interval_ms=st.integers(1, 86_400_000),
        transactional_id=st.none() | name,
        pattern=st.none() | name,
    ),
    ("members", r.CanaryRecord): st.builds(
        r.CanaryRecord,
        planner_epoch=epoch,
        instance=name,
        number=whole,
        state=st.sampled_from(["leading", "stopped"]),
    ),
    ("assignments", r.PlannerRecord): st.builds(
        r.PlannerRecord, planner_epoch=epoch, instance=name, started_at=time
    ),
    ("assignments", r.ProxyRecord): st.builds(
        r.ProxyRecord,
        group=name,
        at=time,
        planner_epoch=epoch,
        standing=name,
        reason=st.just("") | name,
    ),
    ("assignments", r.GroupRecord): st.builds(
        r.GroupRecord,
        group=name,
        mode=st.sampled_from(["managed", "published", "proxy", "advisory"]),
        planner_epoch=epoch,
        group_epoch=epoch,
        plan_id=name,
        strategy=name,
        cause=text,
        lag_at=st.none() | time,
        metadata_at=st.none() | time,
        topics=planned_topics,
        members=planned_members,
        before=score,
        after=score,
        computed_at=time,
        digest=text,
        levers=st.none() | name,
        certificate=st.none()
        | st.builds(
            r.PlanCertificate,
            complete=st.booleans(),
            cut_by=st.lists(text, max_size=2).map(tuple),
            objectives=st.dictionaries(
                name,
                st.builds(
                    r.CertifiedObjective,
                    value=number,
                    bound=number,
                    bound_kind=name,
                    partitions=st.lists(text, max_size=2).map(tuple),
                ),
                max_size=2,
            ),
            summary=st.lists(text, max_size=2).map(tuple),
        ),
        cooldown=st.none()
        | st.builds(
            r.PlannedCooldown,
            until=time,
            pause_ms=whole,
            skew_before=st.none() | number,
            skew_after=st.none() | number,
            spent=st.lists(
                st.builds(r.SpentMoves, at=time, cause=name, moves=whole), max_size=2
            ).map(tuple),
            causes=st.none()
            | st.dictionaries(
                name, st.builds(r.PlannedCauseCooldown, until=time, pause_ms=whole), max_size=2
            ),
            excess_before=st.none() | number,
            excess_after=st.none() | number,
            handover_ms=st.none() | whole,
        ),
        assignments=shards,
        last_epoch=st.none() | epoch,
        shards=shards,
    ),
    ("assignments", r.PlanShard): st.builds(
        r.PlanShard,
        group=name,
        shard=whole,
        group_epoch=epoch,
        digest=name,
        assignments=st.dictionaries(name, partitions, max_size=2),
    ),
    ("assignments", r.GroupShard): st.builds(
        r.GroupShard,
        group=name,
        shard=whole,
        digest=name,
        topics=planned_topics,
        members=planned_members,
    ),
    ("assignments", r.MemberAssignment): st.builds(
        r.MemberAssignment,
        new_from=st.dictionaries(name, whole, max_size=3),
        group=name,
        instance=name,
        incarnation=name,
        planner_epoch=epoch,
        group_epoch=epoch,
        member_epoch=epoch,
        state=st.sampled_from(["active", "evicted"]),
        assigned=partitions,
        pending=partitions,
        revoking=partitions,
        rack=rack,
        capacity=capacity,
        reason=text,
        shards=shards,
    ),
    ("assignments", r.MemberShard): st.builds(
        r.MemberShard,
        group=name,
        instance=name,
        incarnation=name,
        shard=whole,
        digest=name,
        assigned=partitions,
        pending=partitions,
        revoking=partitions,
    ),
    ("control", r.OperatorRecord): st.builds(
        r.OperatorRecord,
        group=name,
        at=time,
        by=text,
        action=st.sampled_from(["rebalance", "apply", "approve"]),
        reason=text,
        plan=st.none() | name,
        target=st.none() | st.dictionaries(name, partitions, max_size=2),
    ),
    ("control", r.LeverRecord): st.one_of(
        *(
            st.builds(
                r.LeverRecord,
                group=name,
                kind=st.just(kind),
                subject=partition_text if kind == "pin" else name,
                at=time,
                by=text,
                reason=text,
                setting=name if kind in {"pin", "strategy"} else st.none() | name,
            )
            for kind in r.LEVER_KINDS
        )
    ),
    ("control", r.ProposalRecord): st.builds(
        r.ProposalRecord,
        group=name,
        at=time,
        plan_id=name,
        cause=name,
        strategy=name,
        basis=name,
        moves=whole,
        before=score,
        after=score,
        target=st.dictionaries(name, partitions, max_size=2),
    ),
    ("decisions", r.DecisionPart): st.builds(
        r.DecisionPart,
        group=name,
        id=name,
        part=whole,
        parts=st.integers(1, 10_000),
        at=time,
        outcome=st.sampled_from(["published", "refused", "ordered"]),
        cause=text,
        plan_id=st.none() | name,
        body=name,
    ),
}
OPTIONAL = {
    r.MemberRecord: ("pattern",),
    r.PipelineRecord: ("daemon",),
    r.LagRecord: (
        "rate",
        "velocity",
        "seconds",
        "seconds_lower_bound",
        "end_read_at",
        "data_end",
        "reset",
        "unclaimed",
        "lag_upper_bound",
        "members",
        "member_racks",
        "owner",
        "others",
        "other_racks",
        "non_readers",
        "local",
    ),
    r.OffsetsRecord: ("data_end", "gaps", "offsets_topic_ends"),
    r.BrokerRecord: ("follower_fetching",),
    r.GroupRecord: (
        "certificate",
        "cooldown",
        "assignments",
        "last_epoch",
        "subscriptions",
        "shards",
        "levers",
    ),
    r.OperatorRecord: ("plan", "target"),
    r.GroupShard: ("subscriptions",),
    r.MemberAssignment: ("shards", "new_from"),
}
"""Fields that a record may lack."""
each = pytest.mark.parametrize(
    ("topic", "kind"), RECORDS, ids=lambda part: getattr(part, "__name__", part)
)
a_record = st.sampled_from(sorted(RECORDS, key=str)).flatmap(
    lambda at: st.tuples(st.just(at[0]), RECORDS[at])
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@each
@settings(max_examples=examples(30))
@given(data=st.data())
def test_a_record_is_read_as_it_was_written(topic, kind, data):
    record = data.draw(RECORDS[topic, kind])
    key, value = r.encode(record)
    assert r.decode(topic, key, value) == record
    assert r.decode(topic, key, None) == r.Tombstone(record.key)
    assert r.encode_key(record.key) == key


@each
@settings(max_examples=examples(30))
@given(data=st.data())
def test_a_record_fits_its_schema(topic, kind, data):
    schema = schemas.load(kind.KIND)
    key, value = map(json.loads, r.encode(data.draw(RECORDS[topic, kind])))
    Draft202012Validator(schema).validate(value)
    Draft202012Validator(schema["$defs"]["key"]).validate(key)


@each
@settings(max_examples=examples(30))
@given(data=st.data())
def test_schema_and_codec_require_the_same_fields(topic, kind, data):
    schema = schemas.load(kind.KIND)
    key, value = r.encode(data.draw(RECORDS[topic, kind]))
    fields = json.loads(value)
    required = set(schema["required"])
    assert required <= set(fields) <= set(schema["properties"])
    assert required == set(schema["properties"]) - set(OPTIONAL.get(kind, ()))
    for field in fields:
        without = json.dumps({other: fields[other] for other in fields if other != field}).encode()
        read = r.decode(topic, key, without)
        if field in required:
            assert read == r.Rejection(f"value.{field}: missing")
        else:
            assert not isinstance(read, r.Rejection)
            assert getattr(read, field, None) in (None, (), {})


@each
@settings(max_examples=examples(30))
@given(data=st.data())
def test_whatever_replaces_a_field_is_read_only_if_the_schema_allows_it(topic, kind, data):
    key, value = r.encode(data.draw(RECORDS[topic, kind]))
    fields = json.loads(value)
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(junk)
    try:
        value = json.dumps(fields).encode()
        read = r.decode(topic, key, value)
    except UnicodeEncodeError:
        return
    if not isinstance(read, r.Rejection):
        Draft202012Validator(schemas.load(kind.KIND)).validate(json.loads(value))
        r.encode(read)


def test_there_is_a_schema_for_each_kind_and_no_other():
    files = {path.stem for path in Path(schemas.__file__).parent.glob("*.json")}
    assert files == {kind.KIND for _, kind in RECORDS}
    assert {kind for _, kind in RECORDS} == set(r.Record.__args__)
    for kind in files:
        Draft202012Validator.check_schema(schemas.load(kind))


@each
@settings(max_examples=examples(30))
@given(data=st.data())
def test_unknown_fields_are_ignored_and_an_unknown_version_is_refused(topic, kind, data):
    record = data.draw(RECORDS[topic, kind])
    key, value = r.encode(record)
    fields = json.loads(value)
    assert r.decode(topic, key, json.dumps({**fields, "later": [1, {}]}).encode()) == record
    for v in (record.V - 1, record.V + 1):
        refused = r.decode(topic, key, json.dumps({**fields, "v": v}).encode())
        assert isinstance(refused, r.Rejection)
        assert refused.other_version
        assert refused.reason.startswith(f"unknown v {v} of {record.KIND} records")
        assert f"reads v {record.V}: upgrade" in refused.reason
    assert isinstance(r.decode(topic, key, json.dumps({**fields, "v": True}).encode()), r.Rejection)


@given(
    topic=st.sampled_from([*sorted(r.KINDS), "dead_letters", "replays"]),
    key=st.none() | st.binary(),
    value=st.none() | st.binary(),
)
def test_random_bytes_are_a_rejection(topic, key, value):
    assert isinstance(r.decode(topic, key, value), r.Rejection)


@given(a_record, st.data())
def test_mangled_bytes_never_crash(topic_and_record, data):
    topic, record = topic_and_record
    parts = list(r.encode(record))
    which = data.draw(st.integers(0, 1))
    raw = bytearray(parts[which])
    at = data.draw(st.integers(0, len(raw)))
    raw[at : at + data.draw(st.integers(0, 3))] = data.draw(
        st.binary(max_size=4) | st.just(b'"') | st.just(b"1e999")
    )
    parts[which] = (
        bytes(raw[: data.draw(st.integers(0, len(raw)))])
        if data.draw(st.booleans())
        else bytes(raw)
    )
    read = r.decode(topic, *parts)
    if isinstance(read, r.Rejection):
        assert 0 < len(read.reason.encode()) < 600
    elif not isinstance(read, r.Tombstone):
        assert r.decode(topic, *r.encode(read)) == read


MEMBER = (
    b'["m","g","i","1"]',
    (
        b'{"acked_epoch":3,"capacity":1.0,"client":"c","client_version":"1","commit_ms":12000,"features":[],'
        b'"heartbeat":3,"hold_ms":20000,"max_poll_interval_ms":300000,"nack":null,"owned":{"t":"0-2,5"},'
        b'"planner_epoch":1,"priority":0,"rack":"a","starting":{},"state":"active","topics":["t"],'
        b'"transactional_id":null,"v":2}'
    ),
)


def test_the_bytes_of_a_record_are_canonical():
    record = r.decode("members", *MEMBER)
    assert record.owned == {"t": (0, 1, 2, 5)}
    assert r.encode(record) == MEMBER
    assert r.encode(dataclasses.replace(record, rack="größe"))[1].count("größe".encode()) == 1


@pytest.mark.parametrize(
    ("was", "becomes", "reason"),
    [
        (
            b'"acked_epoch":3',
            b'"acked_epoch":true',
            "value.acked_epoch: expected an integer from 0 to 1099511627776, got True",
        ),
        (b'"acked_epoch":3', b'"acked_epoch":3.0', "value.acked_epoch: expected an integer"),
        (b'"acked_epoch":3', b'"acked_epoch":' + b"9" * 30, "got an integer of more than 64 bits"),
        (b'"acked_epoch":3', b'"acked_epoch":' + b"9" * 6000, "not JSON: Exceeds the limit"),
        (b'"capacity":1.0', b'"capacity":NaN', "NaN is not JSON"),
        (b'"capacity":1.0', b'"capacity":-Infinity', "-Infinity is not JSON"),
        (
            b'"capacity":1.0',
            b'"capacity":1e999',
            "value.capacity: expected a finite number from 1e-06 to 1e+06",
        ),
        (
            b'"capacity":1.0',
            b'"capacity":0',
            "value.capacity: expected a finite number from 1e-06 to 1e+06, got 0",
        ),
        (
            b'"capacity":1.0',
            b'"capacity":1e-305',
            "value.capacity: expected a finite number from 1e-06 to 1e+06, got 1e-305",
        ),
        (
            b'"acked_epoch":3',
            b'"acked_epoch":9007199254740992',
            "value.acked_epoch: expected an integer from 0 to 1099511627776",
        ),
        (b'"client":"c"', b'"client":"' + b"c" * 1025 + b'"', "client: expected at most 1024"),
        (b'"rack":"a"', b'"rack":"\\ud800"', "not JSON: 'utf-8' codec can't encode"),
        (b'"rack":"a"', b'"rack":"\xff"', "not JSON: 'utf-8' codec can't decode"),
        (b'"rack":"a"', b'"rack":""', "value.rack: expected a text"),
        (
            b'"state":"active"',
            b'"state":"asleep"',
            "value.state: expected joining or active or left, got 'asleep'",
        ),
        (
            b'"state":"active"',
            b'"state":["active"]',
            "value.state: expected joining or active or left, got a list of 1",
        ),
        (b'"0-2,5"', b'"0-9999999999"', "not a partition number"),
        (b'{"t":"0-2,5"}', b'{"t":"0-999999","u":"0"}', "more than 0 partitions"),
        (b'{"t":"0-2,5"}', b'{"t":""}', "value.owned: expected named topics with partitions"),
        (b'"nack":null', b'"nack":' + b"[" * 200_000, "not readable: nested too deeply"),
        (b'"v":2', b'"v":1', "unknown v 1"),
    ],
)
def test_what_is_refused_is_refused_with_its_reason(was, becomes, reason):
    read = r.decode("members", MEMBER[0], MEMBER[1].replace(was, becomes))
    assert isinstance(read, r.Rejection)
    assert reason in read.reason


@pytest.mark.parametrize(
    ("topic", "key", "reason"),
    [
        ("members", None, "no key"),
        ("members", b"{}", "expected a list that begins with a text, got a dict of 0"),
        ("members", b"[]", "expected a list that begins with a text"),
        ("members", b'["x"]', "unknown kind 'x'"),
        ("members", b'["m","g","i"]', "expected 4 parts, got 3"),
        ("members", b'["m","g","i",1]', "expected a name, got 1"),
        ("members", b'["m","g","i",""]', "expected a name, got ''"),
        ("metadata", b'["broker","1"]', "expected a number, got '1'"),
        ("metadata", b'["broker",true]', "expected a number, got True"),
        (
            "metadata",
            b'["broker",18446744073709551616]',
            "expected a number, got an integer of more than 64 bits",
        ),
        ("assignments", b'["planner",1]', "expected 1 parts, got 2"),
        ("metadata", b'["m","g","i","1"]', "unknown kind 'm'"),
    ],
)
def test_a_wrong_key_is_refused_even_for_a_tombstone(topic, key, reason):
    read = r.decode(topic, key, None)
    assert isinstance(read, r.Rejection)
    assert reason in read.reason


SPEED = (
    b'["speed","g"]',
    (b'{"at":1000,"members":{"w1":{"speed":301.5,"sure":0.75},"w2":{"speed":100,"sure":1}},"v":1}'),
)


def test_speeds_are_written_in_canonical_bytes():
    record = r.decode("lag", *SPEED)
    assert record == r.SpeedRecord(
        group="g",
        at=1000,
        members={
            "w1": r.MemberSpeed(speed=301.5, sure=0.75),
            "w2": r.MemberSpeed(speed=100.0, sure=1.0),
        },
    )
    assert r.encode(record) == SPEED
    assert r.partition_key(record.key) == "g"


@pytest.mark.parametrize(
    ("was", "becomes", "reason"),
    [
        (
            b'"speed":100',
            b'"speed":0',
            "value.members.w2.speed: expected a finite number from 1e-30 to 1e+30",
        ),
        (
            b'"speed":100',
            b'"speed":1e999',
            "value.members.w2.speed: expected a finite number from 1e-30 to 1e+30",
        ),
        (
            b'"sure":1}',
            b'"sure":1.5}',
            "value.members.w2.sure: expected a finite number from 0 to",
        ),
        (b',"sure":1}', b"}", "value.members.w2.sure: missing"),
    ],
)
def test_a_speed_that_no_member_can_have_is_refused(was, becomes, reason):
    read = r.decode("lag", SPEED[0], SPEED[1].replace(was, becomes))
    assert isinstance(read, r.Rejection)
    assert reason in read.reason


def test_lists_of_one_topic_must_be_indexed_by_the_same_partitions():
    record = r.OffsetsRecord(topic="t", at=1, id="x", begin=(1, 2), stable=(1,), high=(1, 2))
    assert r.decode("metadata", *r.encode(record)) == r.Rejection(
        "lists of one topic differ in length: begin 2, stable 1, high 2"
    )


FULL_LAG = {
    "v": 2,
    "at": 1,
    "id": "x",
    "end_kind": "stable",
    "source": {},
    "members": ["m"],
    **{name: [0] * 3 for name in BY_PARTITION},
    **{name: [2] for name in PARTITION_SETS},
    "racks": [[]] * 3,
    "local": [None] * 3,
}


@pytest.mark.parametrize(
    "change",
    [lambda column: column[:-1], lambda column: [*column, column[0]]],
    ids=["short", "long"],
)
@pytest.mark.parametrize("name", BY_PARTITION)
def test_a_lag_record_with_a_column_of_another_length_is_refused(name, change):
    key = b'["lag","g","t"]'
    assert isinstance(r.decode("lag", key, json.dumps(FULL_LAG).encode()), r.LagRecord)
    fields = FULL_LAG | {name: change(FULL_LAG[name])}
    read = r.decode("lag", key, json.dumps(fields).encode())
    assert isinstance(read, r.Rejection)
    assert "differ in length" in read.reason


@pytest.mark.parametrize("name", PARTITION_SETS)
def test_a_lag_record_that_names_a_partition_it_does_not_have_is_refused(name):
    fields = FULL_LAG | {name: [3]}
    read = r.decode("lag", b'["lag","g","t"]', json.dumps(fields).encode())
    assert read == r.Rejection(f"{name}: a partition that is not in the other lists")


@pytest.mark.parametrize(("racks", "of"), [("member_racks", "members"), ("other_racks", "others")])
def test_a_lag_record_with_racks_of_other_members_is_refused(racks, of):
    fields = FULL_LAG | {of: ["m", "n"], racks: ["a"]}
    read = r.decode("lag", b'["lag","g","t"]', json.dumps(fields).encode())
    assert read == r.Rejection(f"{racks}: not as long as {of}")


@given(lag_records())
def test_what_is_to_be_read_has_the_bound_of_one_lag(record):
    """A plan counts what nobody claims as lag; no writer may bring it above what a plan takes."""
    claimed = record.unclaimed or (-1,) * len(record.lag)
    for records, lag, unclaimed in zip(record.to_read, record.lag, claimed, strict=True):
        assert 0 <= records < 2**63
        assert records == (lag if unclaimed < 0 else unclaimed if lag == 0 else max(lag, unclaimed))


@pytest.mark.parametrize(
    ("subject", "setting", "reason"),
    [
        ("orders", "m0", "key: expected TOPIC/NUMBER, got 'orders'"),
        ("orders/-1", "m0", "key: expected TOPIC/NUMBER, got 'orders/-1'"),
        ("orders/01", "m0", "key: expected TOPIC/NUMBER, got 'orders/01'"),
        ("/1", "m0", "key: expected TOPIC/NUMBER, got '/1'"),
        ("orders/" + "9" * 5000, "m0", "key: expected TOPIC/NUMBER, got 'orders/99"),
        ("orders/1", None, "value.setting: expected a text"),
    ],
)
def test_a_pin_is_of_a_partition_to_a_member(subject, setting, reason):
    good = r.LeverRecord(
        group="g", kind="pin", subject="a/b/1", at=1, by="me", reason="", setting="m0"
    )
    key, value = r.encode(good)
    assert r.decode("control", key, value) == good
    bad = dataclasses.replace(good, subject=subject, setting=setting)
    read = r.decode("control", *r.encode(bad))
    assert isinstance(read, r.Rejection)
    assert reason in read.reason


def test_a_trigger_must_name_the_kind_and_group_of_its_key():
    record = r.TriggerRecord(
        group="g", at=1, since=1, evidence=r.RacksEvidence(topics={}), source={}
    )
    _, value = r.encode(record)
    assert isinstance(r.decode("triggers", b'["skew","g"]', value), r.Rejection)
    assert isinstance(r.decode("triggers", b'["racks","h"]', value), r.Rejection)


def test_a_record_with_a_lone_surrogate_cannot_be_written():
    with pytest.raises(r.WireError):
        r.encode(r.OperatorRecord(group="\ud800", at=1, by="", action="rebalance", reason=""))


def test_all_records_of_a_group_share_a_partition_key_and_the_planners_has_none():
    assert (
        r.partition_key(("m", "orders", "i0", "1"))
        == r.partition_key(("g", "orders"))
        == r.partition_key(("lag", "orders", "t"))
        == "orders"
    )
    assert r.partition_key(("broker", 3)) == "3"
    assert r.partition_key(("planner",)) is None
    assert r.partition_key(("pipeline",)) == "pipeline"


def test_a_record_goes_to_one_partition_and_the_planners_to_all():
    assert r.partitions_for("members", ("m", "orders", "i0", "1"), 7) == (
        partition_for("orders", 7),
    )
    assert r.partitions_for("assignments", ("planner",), 3) == (0, 1, 2)


def test_a_dead_letter_and_a_replay_go_by_their_whole_key():
    key = ("__consumer_offsets", 3, 17)
    expected = (partition_for('["__consumer_offsets",3,17]', 50),)
    assert r.partitions_for("dead_letters", key, 50) == expected
    assert r.partitions_for("replays", key, 50) == expected


def test_the_headers_name_the_schema():
    record = r.decode("members", *MEMBER)
    assert dict(r.headers(record, epoch=7)) == {
        "schema": b"member/2",
        "content-type": b"application/json",
        "epoch": b"7",
    }


def planned(racks: object) -> r.Record | r.Tombstone | r.Rejection:
    value = {
        "v": 2,
        "mode": "managed",
        "planner_epoch": 1,
        "group_epoch": 1,
        "plan_id": "1",
        "strategy": "range",
        "cause": "",
        "inputs": {"lag_at": None, "metadata_at": None},
        "topics": {"t": {"id": "i", "partitions": 3} | ({} if racks is ... else {"racks": racks})},
        "members": [],
        "score": {"before": None, "after": None},
        "computed_at": 0,
        "digest": "",
    }
    return r.decode("assignments", b'["g","g"]', json.dumps(value).encode())


def test_a_plan_writes_each_distinct_set_of_racks_once():
    racks = (("a", "b"), ("b", "c"), ("a", "b"))
    assert r.PlannedRacks(at=5, racks=racks).value() == {
        "at": 5,
        "sets": [("a", "b"), ("b", "c")],
        "of": [0, 1, 0],
    }
    read = planned({"at": 5, "sets": [["a", "b"], ["b", "c"]], "of": [0, 1, 0]})
    assert read.topics["t"].racks == r.PlannedRacks(at=5, racks=racks)


@pytest.mark.parametrize("racks", [..., None])
def test_a_plan_without_racks_is_read(racks):
    assert planned(racks).topics["t"].racks is None


def test_an_index_of_a_missing_set_of_racks_is_refused():
    read = planned({"at": 5, "sets": [["a"]], "of": [0, 1]})
    assert read == r.Rejection("racks.of: an index that is not in racks.sets")


def test_an_owner_that_is_no_member_is_refused():
    record = r.LagRecord(
        group="g",
        topic="t",
        at=1,
        id="i",
        end_kind="stable",
        **dict.fromkeys(("committed", "committed_at", "begin", "end", "lag", "lost"), (0, 0)),
        stale=(),
        racks=((), ()),
        source={},
        members=("m0",),
        owner=(0, 1),
    )
    assert r.decode("lag", *r.encode(record)) == r.Rejection(
        "owner: an index that is not in members"
    )


def test_a_replay_reaches_beyond_the_record_itself():
    record = r.ReplayRecord(
        at=1, topic="t", partition=0, offset=5, timestamp=1, until=5, raw_key=None, raw_value=None
    )
    assert r.decode("replays", *r.encode(record)) == r.Rejection("until is not above offset")
