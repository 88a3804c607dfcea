"""Cross-rack shares: nominal by the replicas, effective by what brokers let consumers fetch."""

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol.records import BrokerRecord, Tombstone
from levelwind.daemon.control.gain.cross_rack import cross_rack_shares
from levelwind_testing.control.play import Play
from levelwind_testing.records import topic

OWNERS = {("t", number): "m" for number in range(4)}
LAYOUT = replace(topic("t", (("a", "b"), ("a", "b"), ("b", "c"), ())), leader=(1, 2, 2, 1))


def brokers(*follower_fetching):
    """Brokers 1, 2, .. in racks a, b, ..."""
    return {
        number: BrokerRecord(
            broker=number, at=1, rack="abc"[number - 1], online=True, follower_fetching=allowed
        )
        for number, allowed in enumerate(follower_fetching, start=1)
    }


@pytest.mark.parametrize(
    ("allowed", "effective"),
    [
        ((True, True), 1 / 3),  # of three partitions with known racks one has no replica in rack a
        ((False, False), 2 / 3),  # broker 2 leads two of them, in rack b
        ((False, True), 1 / 3),
        ((None, True), None),
    ],
)
def test_shares_are_nominal_by_replicas_and_effective_by_the_leaders_setting(allowed, effective):
    shares = cross_rack_shares(OWNERS, {"m": "a"}, {"t": LAYOUT}, brokers(*allowed))
    assert shares.nominal == pytest.approx(1 / 3)
    assert shares.effective == (None if effective is None else pytest.approx(effective))


@pytest.mark.parametrize("racks", [{}, {"m": None}])
def test_where_no_rack_is_known_there_is_no_share(racks):
    assert cross_rack_shares(OWNERS, racks, {"t": LAYOUT}, {}) == (None, None)


def test_the_control_knows_the_brokers_also_after_a_restart():
    play = Play()
    play.start()
    for broker in brokers(True, False).values():
        play.receive("metadata", broker)
    play.receive("metadata", Tombstone(("broker", 9)))
    play.restart()
    assert sorted(play.state.brokers) == [1, 2]
