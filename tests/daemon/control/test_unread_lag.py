"""Samples of lag that are left unread until a decision needs them."""

from levelwind.assignors.protocol.records import Tombstone
from levelwind.daemon.control.context import Clock
from levelwind.daemon.control.state.control_facts import facts_about
from levelwind.daemon.control.state.plan_backlog import need_of
from levelwind_testing.control.play import Play, begun
from levelwind_testing.records import lag, member, request, topic, unread


def planned():
    """A settled group with a sample that its next look at the demand awaits."""
    play = begun(topic())
    play.join(member("m0"), member("m1"))
    play.wait(6)
    play.receive("lag", lag(1, 2, 3, 4, at=round(play.now * 1000)))
    return play


def group_of(play):
    return play.state.groups["g"]


def test_a_sample_stays_unread_until_a_decision_and_the_newest_one_counts():
    play = planned()
    at = round(play.now * 1000)
    for behind in (5, 6):
        play._read("lag", unread(lag(behind, 0, 0, 0, at=at + behind)))
    group = group_of(play)
    assert group.lags["t"].lag == (1, 2, 3, 4)
    assert facts_about(play.state).groups["g"].lags()["t"].lag == (6, 0, 0, 0)
    play.receive("control", request())
    play.wait(1)
    group = group_of(play)
    assert group.lags["t"].lag == (6, 0, 0, 0)
    assert group.plan.lag_at == at + 6
    assert not group.unread


def test_a_look_at_moderate_demand_leaves_a_sample_unread():
    play = planned()
    at = round(play.now * 1000) + 1
    play._read("lag", unread(lag(9, 0, 0, 0, at=at)))
    play.wait(6)
    group = group_of(play)
    assert group.lags["t"].lag == (1, 2, 3, 4)
    assert facts_about(play.state).groups["g"].lags()["t"].lag == (9, 0, 0, 0)
    assert group.demand.sampled_at == group.lag_at == at


def test_a_look_at_demand_that_may_be_too_much_reads_what_is_unread():
    play = planned()
    much = lag(90_000_000, 0, 0, 0, at=round(play.now * 1000) + 1, rate=(1.0,) * 4)
    play._read("lag", unread(much))
    play.wait(6)
    assert group_of(play).lags["t"].lag == (90_000_000, 0, 0, 0)
    assert play.logged("partition.unsplittable")


def test_the_need_for_a_plan_counts_samples_that_are_unread():
    play = planned()
    play._read("lag", unread(lag(500, 0, 0, 7, at=round(play.now * 1000) + 1)))
    context = play.state.context(Clock(now=play.now, at=round(play.now * 1000)))
    assert need_of(group_of(play), context).waiting == 507


def test_a_sample_that_is_read_replaces_one_that_is_unread():
    play = planned()
    at = round(play.now * 1000)
    play._read("lag", unread(lag(5, 0, 0, 0, at=at + 1)))
    play._read("lag", lag(6, 0, 0, 0, at=at + 2))
    play.wait(6)
    assert group_of(play).lags["t"].lag == (6, 0, 0, 0)


def test_the_end_of_a_topics_lag_ends_what_is_unread_too():
    play = planned()
    play._read("lag", unread(lag(5, 0, 0, 0, at=round(play.now * 1000))))
    play.receive("lag", Tombstone(("lag", "g", "t")))
    play.wait(6)
    assert group_of(play).lags == {}
    play.join(member("m2"))
    play.wait(6)
    assert len(play.plans) == 2, "a decision reads all that is unread"
    assert group_of(play).lags == {}


def test_a_sample_that_cannot_be_read_is_logged_and_the_one_before_stays():
    play = planned()
    broken = unread(lag(5, 0, 0, 0, at=round(play.now * 1000)), (b'"lag":[5', b'"lag":[-5'))
    play._read("lag", broken)
    play.wait(6)
    assert group_of(play).lags["t"].lag == (1, 2, 3, 4)
    (entry,) = play.logged("lag.unreadable")
    assert (entry["group"], entry["topic"]) == ("g", "t")
    assert "lag" in entry["reason"]


def test_a_first_sample_that_cannot_be_read_makes_no_group():
    play = Play()
    play.start()
    play._read("lag", unread(lag(5), (b'"lag":[5', b'"lag":[-5')))
    assert "g" not in play.state.groups
    assert len(play.logged("lag.unreadable")) == 1
