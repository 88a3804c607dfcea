"""Records of levelwind's topics: their bytes, their schemas, and what is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from levelwind.assignors.protocol import records as r
from levelwind.assignors.protocol.canonical_json import LATEST_MS
from levelwind.assignors.protocol.declared.declaration import (
    as_document,
    canonical,
    declaration_of,
)
from levelwind.assignors.protocol.declared.numbers import short, short_column
from levelwind.assignors.protocol.records import schemas
from levelwind.assignors.protocol.records.copied import CopiedRecord
from levelwind.assignors.protocol.topics import partition_for
from levelwind_testing.examples import examples
from levelwind_testing.record_strategies import RECORDS, records_of
from levelwind_testing.records import lag, plan

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
    for field in fields:
        without = json.dumps({other: fields[other] for other in fields if other != field}).encode()
        read = r.decode(topic, key, without)
        if field in required:
            assert isinstance(read, r.Rejection)
            assert read.reason.endswith(": missing")
        elif field not in {"members", "others"}:  # lists that others are indices of, or as long
            assert not isinstance(read, r.Rejection)
            assert getattr(read, field, None) in (None, (), {})
            null = json.dumps(fields | {field: None}).encode()
            if Draft202012Validator(schema).is_valid(json.loads(null)):
                assert r.decode(topic, key, null) == read


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


@each
@settings(max_examples=1)
@given(data=st.data())
def test_a_record_is_a_frozen_value(topic, kind, data):
    record = data.draw(RECORDS[topic, kind])
    for field in kind.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(record, field, None)


def test_there_is_a_schema_for_each_kind_and_no_other():
    files = {path.stem for path in Path(schemas.__file__).parent.glob("*.json")}
    assert files == {kind.KIND for _, kind in RECORDS}
    assert {kind for _, kind in RECORDS} == set(r.Record.__args__)
    for kind in files:
        Draft202012Validator.check_schema(schemas.load(kind))


def times_in(schema, path=""):
    """Yield the places of a schema that have a time, and the greatest one that it allows."""
    if isinstance(schema, dict):
        if "integer" in schema.get("type", ()) and "since the epoch" in " ".join(
            schema.get("description", "").split()
        ):
            yield path, schema["maximum"]
        for word, inner in schema.items():
            yield from times_in(inner, f"{path}/{word}")
    elif isinstance(schema, list):
        for inner in schema:
            yield from times_in(inner, path)


def test_no_time_of_a_record_is_one_that_a_plan_made_of_it_may_not_have():
    bounds = {
        (kind.KIND, path): most
        for _, kind in RECORDS
        if not issubclass(kind, CopiedRecord)  # a copy has the timestamp of its original
        for path, most in times_in(schemas.load(kind.KIND))
    }
    assert len(bounds) >= 20
    assert set(bounds.values()) == {LATEST_MS}


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
        named = r.KINDS[topic][record.key[0]].record if kind is r.CutRecord else kind
        assert refused.reason.startswith(f"unknown v {v} of {named.KIND} records")
        assert f"reads v {named.V}: upgrade" in refused.reason
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
    assert r.encode(replace(record, rack="größe"))[1].count("größe".encode()) == 1


@pytest.mark.parametrize(
    ("was", "becomes", "reason"),
    [
        (b'"acked_epoch":3', b'"acked_epoch":true', "value.acked_epoch: expected `int`, got True"),
        (b'"acked_epoch":3', b'"acked_epoch":3.0', "value.acked_epoch: expected `int`, got 3.0"),
        (b'"acked_epoch":3,', b"", "value.acked_epoch: missing"),
        (b'"acked_epoch":3', b'"acked_epoch":' + b"9" * 30, "got an integer of more than 64 bits"),
        (b'"acked_epoch":3', b'"acked_epoch":' + b"9" * 6000, "value.acked_epoch: integer value"),
        (b'"capacity":1.0', b'"capacity":NaN', "not JSON: "),
        (b'"capacity":1.0', b'"capacity":-Infinity', "not JSON: "),
        (b'"capacity":1.0', b'"capacity":1e999', "value.capacity: number out of range"),
        (b'"capacity":1.0', b'"capacity":0', "value.capacity: expected `float` >= 1e-06, got 0"),
        (b'"capacity":1.0', b'"capacity":1e-305', "expected `float` >= 1e-06, got 1e-305"),
        (
            b'"acked_epoch":3',
            b'"acked_epoch":9007199254740992',
            "value.acked_epoch: expected `int` <= 1099511627776, got 9007199254740992",
        ),
        (
            b'"client":"c"',
            b'"client":"' + b"c" * 1025 + b'"',
            "value.client: expected `str` of length <= 1024, got 'ccc",
        ),
        (b'"rack":"a"', b'"rack":"\\ud800"', "not JSON: "),
        (b'"rack":"a"', b'"rack":"\xff"', "not JSON: 'utf-8' codec can't decode"),
        (b'"rack":"a"', b'"rack":""', "value.rack: expected `str` of length >= 1, got ''"),
        (
            b'"state":"active"',
            b'"state":"asleep"',
            "value.state: expected another value, got 'asleep'",
        ),
        (
            b'"state":"active"',
            b'"state":["active"]',
            "value.state: expected `str`, got a list of 1",
        ),
        (b'"0-2,5"', b'"0-9999999999"', "owned: not a partition number"),
        (b'{"t":"0-2,5"}', b'{"t":"0-999999","u":"0"}', "owned: more than 0 partitions"),
        (b'{"t":"0-2,5"}', b'{"t":""}', "owned: expected named topics with partitions"),
        (b'{"t":"0-2,5"}', b'{"":"5"}', "value.owned: a name: expected `str` of length >= 1"),
        (b'"nack":null', b'"nack":{"code":"x"}', "value.nack.epoch: missing"),
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


def test_a_part_of_a_key_beyond_its_bounds_is_refused():
    lever = b'{"at":1,"by":"","reason":"","setting":null,"v":1}'
    for topic, key, value, reason in (
        ("members", ["m", "g", "i" * 1025, "1"], MEMBER[1], "key.instance: expected `str` of"),
        ("control", ["lever", "g", "hold", "*"], lever, "key.kind: expected another value, got"),
    ):
        read = r.decode(topic, json.dumps(key).encode(), value)
        assert isinstance(read, r.Rejection)
        assert reason in read.reason


def test_a_share_names_no_more_partitions_than_its_topics_may_together():
    fits = MEMBER[1].replace(b'{"t":"0-2,5"}', b'{"t":"0-999998","u":"0"}')
    assert isinstance(r.decode("members", MEMBER[0], fits), r.MemberRecord)
    beyond = r.decode("members", MEMBER[0], fits.replace(b"999998", b"999999"))
    assert beyond == r.Rejection("owned: more than 0 partitions in '0'")


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
            "value.members[...].speed: expected `float` >= 1e-30",
        ),
        (
            b'"speed":100',
            b'"speed":1e999',
            "value.members[...].speed: number out of range",
        ),
        (
            b'"sure":1}',
            b'"sure":1.5}',
            "value.members[...].sure: expected `float` <= 1.0",
        ),
        (b',"sure":1}', b"}", "value.members[...].sure: missing"),
    ],
)
def test_a_speed_that_no_member_can_have_is_refused(was, becomes, reason):
    read = r.decode("lag", SPEED[0], SPEED[1].replace(was, becomes))
    assert isinstance(read, r.Rejection)
    assert reason in read.reason


def test_lists_of_one_topic_must_be_indexed_by_the_same_partitions():
    record = r.OffsetsRecord(topic="t", at=1, id="x", begin=(1, 2), stable=(1,), high=(1, 2))
    assert r.decode("metadata", *r.encode(record)) == r.Rejection(
        "lists by partitions differ in length: begin 2, stable 1, high 2"
    )


LAG_LISTS = declaration_of(r.LagRecord).form.dimensions["partitions"]
"""Names of the lists by partition of a lag record."""
PARTITION_SETS = ("stale", "reset", "lag_upper_bound", "seconds_lower_bound")
FULL_LAG = {
    "v": 2,
    "at": 1,
    "id": "x",
    "end_kind": "stable",
    "source": {},
    "members": ["m"],
    **{name: [0] * 3 for name in LAG_LISTS},
    **{name: [2] for name in PARTITION_SETS},
    "racks": [[]] * 3,
    "local": [None] * 3,
}


@pytest.mark.parametrize(
    "change",
    [lambda column: column[:-1], lambda column: [*column, column[0]]],
    ids=["short", "long"],
)
@pytest.mark.parametrize("name", LAG_LISTS)
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
    assert read == r.Rejection(f"{name}: an index that {LAG_LISTS[0]} does not have")


@pytest.mark.parametrize(("racks", "of"), [("member_racks", "members"), ("other_racks", "others")])
def test_a_lag_record_with_racks_of_other_members_is_refused(racks, of):
    fields = FULL_LAG | {of: ["m", "n"], racks: ["a"]}
    read = r.decode("lag", b'["lag","g","t"]', json.dumps(fields).encode())
    assert read == r.Rejection(f"lists by {of} differ in length: {of} 2, {racks} 1")


@given(records_of(r.LagRecord))
def test_what_is_to_be_read_has_the_bound_of_one_lag(record):
    """A plan counts what nobody claims as lag; no writer may bring it above what a plan takes."""
    claimed = record.unclaimed or (-1,) * len(record.lag)
    for records, behind, unclaimed in zip(record.to_read, record.lag, claimed, strict=True):
        assert 0 <= records < 2**63
        assert records == (behind if unclaimed < 0 else max(behind, unclaimed))


@pytest.mark.parametrize(
    ("subject", "setting", "reason"),
    [
        ("orders", "m0", "'orders' is no partition"),
        ("orders/-1", "m0", "'orders/-1' is no partition"),
        ("orders/01", "m0", "'orders/01' is no partition"),
        ("/1", "m0", "'/1' is no partition"),
        ("orders/" + "9" * 5000, "m0", "is no partition"),
        ("orders/1", None, "setting: a pin needs a name"),
    ],
)
def test_a_pin_is_of_a_partition_to_a_member(subject, setting, reason):
    good = r.LeverRecord(
        group="g", kind="pin", subject="a/b/1", at=1, by="me", reason="", setting="m0"
    )
    key, value = r.encode(good)
    assert r.decode("control", key, value) == good
    bad = replace(good, subject=subject, setting=setting)
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


def test_numbers_are_written_as_ever():
    figures = (0.0, -0.0, 3.0, 0.1, 1e-4, 1e-5, 2.5e-7, 1e15, 1e16, 1.5e22, 2.0**53)
    count = len(figures)
    record = lag(*(0,) * count, rate=figures)
    _, value = r.encode(record)
    assert b'"rate":[0,0,3,0.1,0.0001,1e-05,2.5e-07,1000000000000000,' in value
    assert b"1e+16,1.5e+22,9007199254740992.0]" in value
    scores = {"a": 1.0, "b": 1e-5, "c": 1e16, "d": -2.5}
    _, value = r.encode(plan(before=scores))
    assert b'"before":{"a":1.0,"b":1e-05,"c":1e+16,"d":-2.5}' in value


@given(
    st.lists(
        st.none()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.integers(0, 10**16).map(float)
        | st.floats(0, 1)
        | st.sampled_from((0.0, -0.0, 1e-4, 1e-5, 0.00099, 2.0**53, 1e15, 100.0)),
        max_size=4,
    )
)
def test_a_column_of_figures_is_written_as_its_numbers_are_alone(figures):
    alone = [None if figure is None else short(figure) for figure in figures]
    assert canonical(short_column(figures)) == canonical(alone)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_does_not_have_cannot_be_written(number):
    for record in (lag(0, rate=(number,)), plan(before={"a": number})):
        with pytest.raises(r.WireError, match="cannot be written"):
            r.encode(record)


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
    assert as_document(r.PlannedRacks(at=5, racks=racks)) == {
        "at": 5,
        "sets": [["a", "b"], ["b", "c"]],
        "of": [0, 1, 0],
    }
    read = planned({"at": 5, "sets": [["a", "b"], ["b", "c"]], "of": [0, 1, 0]})
    assert read.topics["t"].racks == r.PlannedRacks(at=5, racks=racks)


@pytest.mark.parametrize("racks", [..., None])
def test_a_plan_without_racks_is_read(racks):
    assert planned(racks).topics["t"].racks is None


def test_an_index_of_a_missing_set_of_racks_is_refused():
    read = planned({"at": 5, "sets": [["a"]], "of": [0, 1]})
    assert read == r.Rejection("topics: racks: racks: of: an index that is not in sets")


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
        "owner: an index that members does not have"
    )


def test_a_replay_reaches_beyond_the_record_itself():
    record = r.ReplayRecord(
        at=1, topic="t", partition=0, offset=5, timestamp=1, until=5, raw_key=None, raw_value=None
    )
    assert r.decode("replays", *r.encode(record)) == r.Rejection("until is not above offset")
