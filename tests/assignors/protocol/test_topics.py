"""Names of topics, and the partition of a name."""

import pytest

from levelwind.assignors.protocol.topics import TOPIC_KINDS, Topics, murmur2, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_gives_the_values_of_kafkas_own_test(text, expected):
    assert murmur2(text.encode()) == expected % 2**32


def test_a_negative_hash_loses_its_sign_as_in_kafka():
    assert partition_for("21", 7) == (-973932308 & 0x7FFFFFFF) % 7


def test_every_kind_has_a_topic_that_leads_back_to_it():
    topics = Topics("x.")
    assert [topics.name(kind) for kind in TOPIC_KINDS] == [
        getattr(topics, kind) for kind in TOPIC_KINDS
    ]
    assert [topics.kind(topics.name(kind)) for kind in TOPIC_KINDS] == list(TOPIC_KINDS)
    assert topics.dead_letters == "x.dead-letters"
    assert topics.kind("x.other") is None
    assert Topics().kind("x.lag") is None
