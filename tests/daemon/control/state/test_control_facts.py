"""Facts about the control: what they say, and that no later step changes it."""

from copy import deepcopy

from msgspec.structs import replace

from levelwind.assignors.protocol.records import LagRecord, Tombstone
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.control.state.plan_backlog import PlanBudget
from levelwind_testing.control.play import begun
from levelwind_testing.records import lag, member, skew_trigger, topic, unread


def settled(*groups):
    """Groups of two members, each with a plan that was judged and with a sample of lag."""
    play = begun(topic())
    play.join(*(member(f"{group}-m{n}", group=group) for group in groups for n in range(2)))
    play.wait(6)
    for _ in range(2):
        for group in groups:
            play.receive("lag", lag(1, 2, 3, 4, group=group, at=round(play.now * 1000)))
        play.wait(70)
    return play


def test_no_step_changes_facts_that_were_taken():
    play = settled("g", "h")
    facts = facts_about(play.state)
    as_taken = deepcopy(facts)
    later = round(play.now * 1000) + 1
    play.wait(2)  # heartbeats that repeat
    assert facts == as_taken
    for kind, record in (
        ("lag", lag(5, 6, 7, 8, at=later)),
        ("lag", unread(lag(50, 6, 7, 8, group="h", at=later))),
        ("lag", lag(1, 2, 3, 4, topic="another", at=later)),
        ("metadata", topic(racks=[["a"], ["b"], ["c"], ["a"]])),
        ("metadata", topic("another")),
        ("triggers", skew_trigger(at=later)),
        ("metadata", Tombstone(("topic", "t"))),
        ("members", member("g-m2")),
        ("members", member("new-m0", group="new")),
    ):
        play.receive(kind, record)
        assert facts == as_taken, record
    play.leave("h-m0", "i1")
    play.wait(30)
    assert facts == as_taken
    assert facts_about(play.state) != as_taken


def test_a_newer_sample_counts_unless_it_cannot_be_read():
    play = settled("g")
    before = facts_about(play.state).groups["g"].lags()["t"]
    newer = lag(50, 6, 7, 8, at=before.at + 1000)
    play.receive("lag", unread(newer))
    facts = facts_about(play.state).groups["g"]
    assert facts.lags()["t"] == newer
    assert not isinstance(facts.samples["t"], LagRecord)
    torn = replace(newer, at=newer.at + 1000)
    play.receive("lag", unread(torn, damage=(b'"lag":[50', b'"lag":[-5')))
    facts = facts_about(play.state).groups["g"]
    assert (facts.samples["t"].at, facts.lags()["t"].lag) == (torn.at, before.lag)


def test_groups_that_wait_for_a_plan_are_counted_with_the_longest_wait():
    groups = [f"g{number}" for number in range(9)]
    play = settled(*groups)
    assert (facts_about(play.state).waiting, facts_about(play.state).waiting_since) == (0, None)
    play.budget = PlanBudget(plans=1, every=0.5)
    for group in groups:
        play.receive("members", member(f"{group}-other", group=group))
    joined_at = round(play.now * 1000)
    play.wait(3)
    facts = facts_about(play.state)
    assert 0 < facts.waiting < len(groups)
    assert joined_at <= facts.waiting_since < round(play.now * 1000)
