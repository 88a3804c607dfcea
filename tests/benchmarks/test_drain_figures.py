"""The arithmetic of `make bench-drain`: what a round's figures are made of."""

import math
from dataclasses import replace

import numpy as np
import pytest

from levelwind_testing.drain.drain_figures import (
    ArrivedRecords,
    HandledRecords,
    backlog,
    delays_of,
    drain_seconds,
    duplicates,
    first_handled,
    lag_at,
    largest_utilisation,
    lost,
    owner_changes,
    percentile,
    round_figures,
)
from levelwind_testing.drain.drain_scenarios import (
    MEMBERS,
    PARTITIONS,
    SCENARIOS,
    DrainScenario,
    arrivals_in,
    burst_partitions,
    burst_sizes,
    ideal_seconds,
    partition_rates,
    rates_after_burst,
    replica_racks,
)
from levelwind_testing.drain.machine_load import CpuReading, MachineLoad, busy_share

SMALL = DrainScenario(name="small", title="", arrivals=36.0, backlog=360, speeds=(72.0,))
QUIET = MachineLoad(cpu=0.5, busy_windows=0.0, late=0.0, behind=0.0)
EVERY_SCENARIO = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))


def arrived(*times: list[float], burst: tuple[int, int] = (0, 0)) -> ArrivedRecords:
    """Records of the first partitions; the burst is in the first one."""
    columns = [np.array(column, dtype=float) for column in times]
    columns += [np.zeros(0)] * (PARTITIONS - len(times))
    return ArrivedRecords(at=columns, burst=[burst] + [(0, 0)] * (PARTITIONS - 1))


def handled(*rows: tuple[int, int, int, float], changes: list[tuple] = []) -> HandledRecords:  # noqa: B006 - only read
    """Rows of member, partition, offset and time."""
    member, partition, offset, at = zip(*rows, strict=True) if rows else ((), (), (), ())
    return HandledRecords(
        member=np.array(member, dtype=np.int16),
        partition=np.array(partition, dtype=np.int16),
        offset=np.array(offset, dtype=np.int64),
        handled_at=np.array(at, dtype=float),
        changes=np.array(changes, dtype=float).reshape(-1, 4),
    )


def test_the_ideal_time_is_the_backlog_over_the_spare_speed():
    assert ideal_seconds(54_000, 900, 1800) == 60
    assert ideal_seconds(1, 1800, 1800) == math.inf
    assert SCENARIOS["S1"].ideal == 60
    assert SCENARIOS["S1"].scaled(0.5).ideal == 30
    assert SCENARIOS["S3"].ideal is None


@EVERY_SCENARIO
def test_a_scenario_asks_for_less_than_all_members_can_do(scenario):
    assert scenario.arrivals < scenario.capacity
    assert len(scenario.speeds) == MEMBERS
    assert scenario.measured > 2 * scenario.settled_after - 1e-9


@EVERY_SCENARIO
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_rates_add_up_to_the_arrivals_also_after_the_burst(scenario, seed):
    rates = partition_rates(scenario, seed)
    assert rates.sum() == pytest.approx(scenario.arrivals)
    owners = [number % MEMBERS for number in range(PARTITIONS)]
    burst = burst_partitions(scenario, seed, owners)
    after = rates_after_burst(scenario, rates, burst)
    assert after.sum() == pytest.approx(scenario.arrivals)
    assert (after[list(burst)] == 0).all()
    assert burst_sizes(scenario, burst).sum() == scenario.backlog


def test_zipf_arrivals_leave_every_partition_within_one_members_speed():
    assert 0.7 < partition_rates(SCENARIOS["S2"], 1).max() / 300 < 0.75


def test_one_partition_is_beyond_any_member():
    assert partition_rates(SCENARIOS["S5"], 1).max() > 300


def test_arrivals_are_those_of_the_seed_and_near_their_rates():
    rates = partition_rates(SCENARIOS["S2"], 1)
    drawn = np.array([arrivals_in(rates, 1, second) for second in range(200)])
    assert (drawn[7] == arrivals_in(rates, 1, 7)).all()
    assert (drawn[7] != arrivals_in(rates, 2, 7)).any()
    assert drawn.sum() / 200 == pytest.approx(rates.sum(), rel=0.02)


def test_the_burst_is_on_the_partitions_of_the_member_with_most_or_of_the_seed():
    owners = [0] * 5 + [1] * 7 + [2] * (PARTITIONS - 12)
    assert burst_partitions(SCENARIOS["S1"], 1, owners) == tuple(range(12, 18))
    seeded = burst_partitions(SCENARIOS["S1n"], 1, owners)
    assert seeded == burst_partitions(SCENARIOS["S1n"], 1, [None] * PARTITIONS)
    assert len(set(seeded)) == 6


def test_a_partition_has_replicas_in_two_racks():
    assert {replica_racks(number) for number in range(6)} == {("a", "b"), ("b", "c"), ("c", "a")}


def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed():
    values = np.arange(1.0, 101.0)
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values, 1.0) == 100
    assert percentile(np.array([3.0]), 0.5) == 3
    assert percentile(np.zeros(0), 0.99) == 0


def test_a_record_counts_when_it_was_first_handled():
    records = handled((0, 0, 0, 5.0), (1, 0, 0, 3.0), (0, 0, 1, 6.0))
    (first, *_) = first_handled(arrived([1.0, 2.0, 3.0]), records)
    assert first.tolist() == [3.0, 6.0, math.inf]
    assert duplicates(records) == 1


def test_equal_offsets_of_two_partitions_are_no_duplicates():
    assert duplicates(handled((0, 0, 7, 1.0), (0, 1, 7, 1.0), (0, 1, 7, 2.0))) == 1


def test_a_record_is_lost_if_only_later_ones_of_its_partition_were_handled():
    records = arrived([1.0] * 4, [1.0] * 2)
    assert lost(first_handled(records, handled((0, 0, 0, 2.0), (0, 0, 2, 2.0)))) == 1
    assert lost(first_handled(records, handled((0, 0, 0, 2.0), (0, 1, 0, 2.0)))) == 0


def test_delays_are_of_arrivals_in_the_window_and_what_still_waits_counts_until_the_end():
    records = arrived([0.5, 1.0, 2.0, 9.0])
    first = first_handled(records, handled((0, 0, 0, 8.0), (0, 0, 1, 3.0)))
    assert delays_of(records, first, 1.0, 9.0, 10.0).tolist() == [2.0, 8.0]


def test_the_backlog_is_what_has_arrived_and_is_not_handled():
    records = arrived([1.0, 1.0, 4.0])
    first = first_handled(records, handled((0, 0, 0, 2.0)))
    assert [backlog(records, first, at) for at in (0.5, 1.0, 2.0, 4.0)] == [0, 2, 1, 2]


def drained(scenario: DrainScenario, speed: float, ended: float = 100.0) -> float | None:
    """Seconds in which one member of a speed drains the scenario's burst, which is oldest."""
    times = [0.0] * scenario.backlog
    times += [number / scenario.arrivals for number in range(int(scenario.arrivals * ended))]
    rows, free_at = [], 0.0
    for offset, at in enumerate(times):
        free_at = max(free_at, at) + 1 / speed
        rows.append((0, 0, offset, free_at))
    records = arrived(times, burst=(0, scenario.backlog))
    first = first_handled(records, handled(*rows))
    return drain_seconds(scenario, records, first, 0.0, ended)


def test_a_burst_is_drained_when_its_last_record_is_handled_and_no_other_work_is_left():
    assert SMALL.ideal == 10
    # The burst itself takes 5 s; other work is left until a second's worth of it remains.
    assert drained(SMALL, 72.0) == pytest.approx(9.0, abs=0.2)
    assert drained(SMALL, 54.0) == pytest.approx(18.0, abs=0.3)
    assert drained(SMALL, 37.0) == math.inf
    assert drained(replace(SMALL, backlog=0, seconds=9.0), 72.0) is None


def test_a_move_is_a_gain_by_another_member_than_the_last_one():
    changes = np.array(
        [
            (0.0, 0, 5, 1),
            (1.0, 0, 5, 0),
            (2.0, 0, 5, 1),  # came back
            (3.0, 0, 5, 0),
            (4.0, 1, 5, 1),
            (4.0, 1, 6, 1),  # had no owner before
            (9.0, 0, 5, 1),
        ]
    )
    assert owner_changes(changes, 0.0, 8.0) == [4.0]


def test_utilisation_is_the_largest_of_any_member_in_any_window():
    rates = np.zeros(PARTITIONS)
    rates[:2] = 30.0, 60.0
    changes = np.array([(0.0, 0, 0, 1), (0.0, 1, 1, 1), (15.0, 1, 1, 0), (15.0, 0, 1, 1)])
    assert largest_utilisation((100.0, 100.0), rates, changes, 0.0, 10.0) == pytest.approx(0.6)
    assert largest_utilisation((100.0, 100.0), rates, changes, 0.0, 20.0) == pytest.approx(0.6)
    assert largest_utilisation((100.0, 100.0), rates, changes, 20.0, 40.0) == pytest.approx(0.9)


def test_figures_of_a_round():
    scenario = replace(SMALL, arrivals=1.0, backlog=2, speeds=(2.0,))
    records = arrived([10.0, 10.0, 10.5, 11.5], burst=(0, 2))
    done = handled(*[(0, 0, n, 10.5 + n / 2) for n in range(4)], changes=[(9.0, 0, 0, 1)])
    rates = np.eye(1, PARTITIONS)[0]
    figures = round_figures(scenario, rates, records, done, began=10.0, ended=12.0)
    assert figures.drain == 1.0
    assert figures.drain_over_ideal == 0.5
    assert figures.idle == 0.0
    assert (figures.mean, figures.p50, figures.max) == (0.75, 0.5, 1.0)
    assert (figures.most_lag, figures.others_drained) == (2, 0.0)
    assert figures.utilisation == pytest.approx(0.15)  # of ten seconds, owned in three
    assert (figures.moves, figures.first_move) == (0, None)
    assert (figures.duplicates, figures.lost) == (0, 0)


def test_the_lag_of_some_partitions_over_time():
    records = arrived([1.0, 2.0], [1.0, 1.0, 4.0])
    done = first_handled(records, handled((0, 0, 0, 3.0), (0, 1, 0, 1.5), (0, 1, 1, 4.5)))
    times = np.arange(0.5, 5.0)
    assert lag_at(records, done, times, [0]).tolist() == [0, 1, 2, 1, 1]
    assert lag_at(records, done, times, [0, 1]).tolist() == [0, 2, 3, 2, 2]


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (QUIET, None),
        (replace(QUIET, cpu=0.95), "the CPU was busy for 95% of the round"),
        (replace(QUIET, cpu=0.89, busy_windows=0.5, late=0.02, behind=0.9), None),
        (replace(QUIET, late=0.1), "a member lost 10.0% of its time to the machine"),
        (replace(QUIET, behind=2.0), "arrivals were 2.0 s behind"),
    ],
)
def test_a_round_in_which_the_machine_was_the_bottleneck_is_named(load, reason):
    assert load.bottleneck == reason


def test_the_cpu_that_processes_of_low_priority_use_counts_as_free():
    before = CpuReading(columns=(0,) * 10, processes={1: 100, 3: 5})
    #        user nice system idle iowait irq softirq steal guest guest_nice
    columns = (30, 20, 10, 20, 10, 5, 3, 2, 9, 9)
    after = CpuReading(columns=columns, processes={1: 120, 2: 15})  # 3 has ended, 2 is new
    assert busy_share(before, after) == pytest.approx(0.45)
    assert busy_share(after, after) == 0


def test_processes_of_normal_priority_are_read(tmp_path):
    (tmp_path / "stat").write_text("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1\n")
    for pid, nice, system in ((1, 0, 100), (2, 19, 7), (3, -5, 50)):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", *["0"] * 10, "11", str(system), "0", "0", "20", str(nice), "1"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}")
    reading = CpuReading.now(tmp_path)
    assert reading == CpuReading(columns=tuple(range(1, 11)), processes={1: 111, 3: 61})
