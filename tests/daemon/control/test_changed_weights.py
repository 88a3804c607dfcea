"""Members that change their capacity or priority while they run."""

from levelwind.assignors.protocol.records import Tombstone
from levelwind_testing.control.play import begun
from levelwind_testing.records import lag, member, topic


def test_another_capacity_leads_to_a_plan_that_follows_it():
    play = begun(topic(racks=((),) * 8), strategy="optimal")
    play.join(member("m0"), member("m1"))
    play.wait(2)
    play.receive("lag", lag(*[1000] * 8, at=round(play.now * 1000)))
    play.wait(8)
    assert {name: len(owned) for name, owned in shares(play).items()} == {"m0": 4, "m1": 4}
    plans = len(play.plans)
    play.update("m1", "i1", capacity=3.0)
    play.wait(6)
    assert [plan["cause"] for plan in play.plans[plans:]] == ["membership"]
    assert {name: len(owned) for name, owned in shares(play).items()} == {"m0": 2, "m1": 6}
    published = {record.key: record for record in play.log if record.key[0] == "m"}
    assert published["m", "g", "m1", "i1"].capacity == 3.0
    play.wait(30)
    assert len(play.plans) == plans + 1


def test_another_priority_moves_everything_to_the_member_that_is_preferred():
    play = begun(topic(), strategy="failover")
    play.join(member("m0"), member("m1"))
    play.wait(3)
    [owner] = [name for name, owned in shares(play).items() if owned]
    [spare] = {"m0", "m1"} - {owner}
    play.update(spare, "i1", priority=1)
    play.wait(6)
    assert [name for name, owned in shares(play).items() if owned] == [spare]
    assert not any(isinstance(record, Tombstone) for record in play.log), "nobody left or joined"


def shares(play):
    return {instance: record.owned.get("t", ()) for (instance, _), record in play.members.items()}
