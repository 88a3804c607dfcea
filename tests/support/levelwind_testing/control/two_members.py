"""The beginning of a transcript: a group of two members that have a topic of four partitions."""

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.daemon.control.settings import PlanSettings
from levelwind_testing.control.play import Play
from levelwind_testing.records import lag, member, skew_trigger, topic


def two_members(*names: str, planning: PlanSettings | None = None) -> Play:
    """Play it until the two members of group g own two partitions of topic t each."""
    play = Play() if planning is None else Play(planning=planning)
    play.start(topic())
    play.join(*map(member, names or ("m0", "m1")))
    play.wait(2)
    return play


def give_all_lag_to_one(play: Play) -> None:
    """Give m0 all of the lag."""
    heavy = ranges.parse(play.owned()["m0"])
    play.receive("lag", lag(*(90_000 if n in heavy else 0 for n in range(4)), at=play.now * 1000))


def skew(play: Play) -> None:
    """Give m0 all of the lag, and let the pipeline say so."""
    give_all_lag_to_one(play)
    play.receive("triggers", skew_trigger())
