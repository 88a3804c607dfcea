"""The order in which a coordinator picks leaders: that of a Java hash map."""

import pytest

from levelwind.daemon.proxy.succession import order_of, slot_of, slots


@pytest.mark.parametrize(
    ("members", "size"), [(0, 16), (12, 16), (13, 32), (48, 64), (49, 128), (1000, 2048)]
)
def test_a_map_doubles_when_it_is_filled_by_more_than_three_quarters(members, size):
    assert slots(members) == size


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("\U0001f600", 1772899),
    ],
)
def test_the_hash_is_that_of_a_java_string(text, hashed):
    unsigned = hashed & 0xFFFFFFFF
    assert slot_of(text, 2**32) == unsigned ^ (unsigned >> 16)


def test_a_candidate_comes_behind_those_in_its_slot():
    # The slots of one letter are its code below 16: p is 0, a and q are 1, b is 2.
    order = order_of(["a", "b"])
    assert [name for name in "pqabc" if order.goes_first(name)] == ["p"]
    assert order_of([]).goes_first("o")


def test_a_member_in_the_first_slot_cannot_be_overtaken_and_does_not_count():
    assert [name for name in "pabc" if order_of(["p", "b"]).goes_first(name)] == ["p", "a"]
    assert order_of(["p"]).goes_first("o")
