"""Transactional ids of members: no two members share one, whatever they are named."""

from hypothesis import example, given
from hypothesis import strategies as st

from levelwind.assignors.protocol import transactional_ids as ids

# Names of which one can continue another, as a group's does with a slash in it.
name = st.text(alphabet="a/%2Fb.", min_size=1, max_size=4) | st.text(min_size=1, max_size=4)
member = st.tuples(name, name)


@given(member, member)
@example(("a/b", "c"), ("a", "b/c"))
@example(("a%2Fb", "c"), ("a/b", "c"))
def test_two_members_have_two_ids(one, other):
    same = ids.of_member("levelwind.", *one) == ids.of_member("levelwind.", *other)
    assert same == (one == other)


@given(member, name)
@example(("a/b", "c"), "a")
def test_a_groups_beginning_is_that_of_its_members_alone(one, group):
    begins = ids.of_member("levelwind.", *one).startswith(ids.of_group("levelwind.", group))
    assert begins == (one[0] == group)


def test_an_ordinary_name_is_written_as_it_is():
    assert ids.of_member("levelwind.", "orders", "host-1") == "levelwind.orders/host-1"
    assert ids.former("levelwind.", "orders", "host-1") == "levelwind.orders/host-1"
    assert ids.of_member("levelwind.", "a/b", "50%") == "levelwind.a%2Fb/50%25"
