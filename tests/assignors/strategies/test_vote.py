import pytest

from levelwind.assignors.strategies.vote import InconsistentGroupProtocolError, elect_strategy


def test_the_common_strategy_that_most_prefer_is_chosen():
    assert elect_strategy([["lag", "range"], ["range", "lag"], ["lag", "sticky", "range"]]) == "lag"


def test_a_vote_goes_to_the_first_name_that_all_others_offer_too():
    assert (
        elect_strategy([["sticky", "range", "lag"], ["lag", "range"], ["range", "lag"]]) == "range"
    )


def test_a_rolling_upgrade_keeps_the_old_strategy_until_all_offer_the_new_one():
    old, new = ["range"], ["cooperative-sticky", "range"]
    assert elect_strategy([old, new, new]) == "range"
    assert elect_strategy([new, new, new]) == "cooperative-sticky"


def test_equal_votes_go_to_the_first_name():
    assert elect_strategy([["b", "a"], ["a", "b"]]) == "a"


@pytest.mark.parametrize("offers", [[], [[]], [["range"], ["lag"]], [["range"], []]])
def test_without_a_common_strategy_the_group_is_inconsistent(offers):
    with pytest.raises(InconsistentGroupProtocolError, match="none is offered by all"):
        elect_strategy(offers)


def test_a_member_that_offers_a_name_twice_counts_once():
    with pytest.raises(InconsistentGroupProtocolError, match=r"lag by 1, range by 2\)"):
        elect_strategy([["range", "range"], ["range"], ["lag"]])
