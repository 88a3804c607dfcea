"""Worked examples of Kafka Streams: KIP-441, KIP-708 and KIP-925, as in Kafka's own tests.

Each test names its KIP, and its numbers are Kafka's. Where this planner does better, the test
states it.
"""

import numpy as np
import pytest

from levelwind.assignors.kafka_streams import (
    SourceTopic,
    StreamsProcess,
    StreamsSettings,
    Subtopology,
    Task,
    assign,
)
from levelwind.assignors.kafka_streams.application import Application
from levelwind.assignors.kafka_streams.assign import assign_stateful
from levelwind.assignors.kafka_streams.standbys import assign_standbys
from levelwind_testing.groups.applications import apply_plan, process, processes_by_task, tasks_of

UNKNOWN_LAG = 2**63 - 1  # Kafka's lag of a process that knows nothing


def tasks(*names, stateful=True):
    """Tasks by their ids."""
    return [
        Task(subtopology=name.split("_")[0], partition=int(name.split("_")[1]), stateful=stateful)
        for name in names
    ]


NINE = [f"{subtopology}_{partition}" for subtopology in range(3) for partition in range(3)]


def active_of(plan, *processes):
    """The tasks that each process runs."""
    where = processes_by_task(plan)
    return [
        sorted(task for task, name in where.items() if name == process_id)
        for process_id in processes
    ]


def copies_of(plan, *processes):
    """What each process follows: standbys and warm-ups, which Kafka's tests count as one."""
    found = [[] for _ in processes]
    for name, _, role, task in plan.rows():
        if role != "active":
            found[processes.index(name)].append(task)
    return [sorted(process_ids) for process_ids in found]


# --- KIP-441: balance over processes and threads


@pytest.mark.parametrize(
    ("names", "threads", "expected"),
    [
        (NINE, (1, 1, 1), [3, 3, 3]),
        (NINE, (3, 3, 3), [3, 3, 3]),
        (NINE, (1, 1), [4, 5]),
        (NINE, (9, 9, 9), [3, 3, 3]),
        (NINE, (6, 3), [3, 6]),
        (NINE[:6], (1, 2, 3), [1, 2, 3]),
        (["0_0", "0_1"], (1, 1, 1), [0, 1, 1]),
    ],
    ids=[
        "as many tasks as processes divide",
        "as many tasks as threads divide",
        "more tasks than processes divide",
        "as many threads as tasks on each",
        "unequal threads, best effort over processes",
        "unevenly distributed threads",
        "more processes than tasks",
    ],
)
def test_kip_441_active_stateful_tasks_are_even_over_threads_and_processes(
    names, threads, expected
):
    lags = dict.fromkeys(names, 10)
    processes = [process(f"c{n}", threads=count, lags=lags) for n, count in enumerate(threads)]
    plan = assign(
        tasks(*names), processes, StreamsSettings(acceptable_recovery_lag=0, max_warmups=1)
    )
    assert not plan.probing
    counts = [
        len(tasks_of_process)
        for tasks_of_process in active_of(plan, *(each.id for each in processes))
    ]
    assert sorted(counts) == expected
    if len(set(threads)) > 1:
        assert sorted(zip(threads, counts, strict=True)) == list(
            zip(sorted(threads), expected, strict=True)
        )


def test_kip_441_stateful_tasks_reach_all_processes_however_unequal_their_threads():
    names = [*[f"{s}_{p}" for s in range(2) for p in range(4)], "2_0"]
    lags = dict.fromkeys(names, 0)
    processes = [
        process("c1", threads=100, lags=lags),
        process("c2", threads=50, lags=lags),
        process("c3", lags=lags),
    ]
    plan = assign(tasks(*names), processes)
    assert [len(tasks_of_process) for tasks_of_process in active_of(plan, "c1", "c2", "c3")] == [
        5,
        3,
        1,
    ]
    assert not plan.probing


# --- KIP-441: caught-up processes first, warm-ups, probing


def caught_up(name, ran, stateful, **fields):
    """A process that ran some tasks, and knows nothing of the other stateful ones."""
    return process(
        name,
        active=ran,
        lags={task: 0 if task in ran else UNKNOWN_LAG for task in stateful},
        **fields,
    )


FOUR = ["0_0", "0_1", "1_0", "1_1"]


def test_kip_441_warm_ups_start_where_threads_are_even_but_processes_are_not():
    processes = [
        caught_up("c1", FOUR, FOUR, threads=5),
        *(caught_up(c, [], FOUR, threads=5) for c in ("c2", "c3")),
    ]
    plan = assign(
        tasks(*FOUR), processes, StreamsSettings(acceptable_recovery_lag=0, max_warmups=2)
    )
    assert plan.probing
    assert active_of(plan, "c1", "c2", "c3") == [FOUR, [], []]
    assert sum(kind == "warmup" for _, _, kind, _ in plan.rows()) == 2
    assert all(each.role == "active" and each.warming and each.lag is None for each in plan.awaited)


def test_kip_441_warmed_up_processes_are_handed_their_tasks():
    def warm(name, task):
        return process(
            name, standby=[task], lags={t: 0 if t == task else UNKNOWN_LAG for t in FOUR}, threads=5
        )

    processes = [caught_up("c1", FOUR, FOUR, threads=5), warm("c2", "0_1"), warm("c3", "1_0")]
    plan = assign(
        tasks(*FOUR), processes, StreamsSettings(acceptable_recovery_lag=0, max_warmups=2)
    )
    assert not plan.probing
    assert active_of(plan, "c1", "c2", "c3") == [["0_0", "1_1"], ["0_1"], ["1_0"]]


def test_kip_441_no_more_than_the_budget_of_warm_ups():
    names = ["0_0", "0_1", "0_2", "0_3"]
    processes = [caught_up("c1", names, names), caught_up("c2", [], names)]
    plan = assign(
        tasks(*names), processes, StreamsSettings(acceptable_recovery_lag=100, max_warmups=1)
    )
    assert active_of(plan, "c1", "c2") == [names, []]
    assert [len(tasks_of_process) for tasks_of_process in copies_of(plan, "c1", "c2")] == [0, 1]
    assert plan.probing
    assert [each.warming for each in plan.awaited] == [True, False]


def test_kip_441_warm_ups_without_any_standby_configured():
    processes = [
        caught_up("c1", ["0_0", "0_1"], ["0_0", "0_1"]),
        caught_up("c2", [], ["0_0", "0_1"]),
    ]
    plan = assign(tasks("0_0", "0_1"), processes, StreamsSettings(acceptable_recovery_lag=100))
    assert active_of(plan, "c1", "c2") == [["0_0", "0_1"], []]
    assert [len(tasks_of_process) for tasks_of_process in copies_of(plan, "c1", "c2")] == [0, 1]
    assert plan.probing


def test_kip_441_a_warm_up_and_a_standby_are_never_on_one_process():
    names = ["0_0", "0_1", "0_2", "0_3"]
    processes = [caught_up("c1", names, names), caught_up("c2", [], names)]
    chosen = StreamsSettings(acceptable_recovery_lag=100, max_warmups=1, standby_replicas=1)
    plan = assign(tasks(*names), processes, chosen)
    assert active_of(plan, "c1", "c2") == [names, []]
    assert copies_of(plan, "c1", "c2") == [[], names]
    assert (
        sum(kind == "warmup" for _, _, kind, _ in plan.rows()) == 0
    )  # all four are standbys, swapped
    assert plan.probing


def test_kip_441_the_task_goes_where_it_is_nearest_to_caught_up():
    """Kafka runs it on c3 and warms up c1, the first by id; this planner leaves it on c3."""
    processes = [
        process(c, lags={"0_0": lag}) for c, lag in (("c1", UNKNOWN_LAG), ("c2", 1000), ("c3", 500))
    ]
    chosen = StreamsSettings(acceptable_recovery_lag=100, max_warmups=1, standby_replicas=1)
    plan = assign(tasks("0_0"), processes, chosen)
    assert active_of(plan, "c1", "c2", "c3") == [[], [], ["0_0"]]
    assert processes_by_task(plan, "standby") == {"0_0": ["c2"]}
    assert not plan.probing


def test_kip_441_a_task_leaves_the_process_that_fell_behind():
    """Kafka then warms it up where it was, "although this isn't an optimal convergence".

    This planner settles at once.
    """
    processes = [
        process("c1", active=["0_0"], lags={"0_0": 500}),
        process("c2", active=["0_1"], lags={"0_0": 0}),
    ]
    work = tasks("0_0") + tasks("0_1", stateful=False)
    plan = assign(work, processes, StreamsSettings(acceptable_recovery_lag=100))
    assert active_of(plan, "c1", "c2") == [["0_1"], ["0_0"]]
    assert not plan.probing


def test_kip_441_nobody_caught_up_means_no_waiting():
    plan = assign(
        tasks("0_0", "0_1"),
        [caught_up("c1", [], ["0_0", "0_1"])],
        StreamsSettings(acceptable_recovery_lag=100, standby_replicas=1),
    )
    assert active_of(plan, "c1") == [["0_0", "0_1"]]
    assert copies_of(plan, "c1") == [[]]
    assert not plan.probing
    assert plan.warnings == (
        (
            "standby_replicas: 1 are configured, but only 0 are possible, since the copies of a"
            " task are on distinct processes; start more processes"
        ),
    )


def test_kip_441_each_follows_the_other():
    processes = [caught_up("c1", ["0_0"], ["0_0", "0_1"]), caught_up("c2", ["0_1"], ["0_0", "0_1"])]
    plan = assign(
        tasks("0_0", "0_1"),
        processes,
        StreamsSettings(acceptable_recovery_lag=100, standby_replicas=1),
    )
    assert active_of(plan, "c1", "c2") == [["0_0"], ["0_1"]]
    assert copies_of(plan, "c1", "c2") == [["0_1"], ["0_0"]]
    assert not plan.probing


def test_kip_441_stateless_tasks_have_no_standbys():
    plan = assign(
        tasks("0_0", "0_1", stateful=False),
        [process("c1"), process("c2")],
        StreamsSettings(standby_replicas=1),
    )
    assert [len(tasks_of_process) for tasks_of_process in active_of(plan, "c1", "c2")] == [1, 1]
    assert copies_of(plan, "c1", "c2") == [[], []]
    assert not plan.probing


def test_kip_441_the_assignment_as_it_was_is_used_again():
    names = ["0_0", "0_1", "0_2", "0_3"]
    processes = [caught_up("c1", ["0_0", "0_2"], names), caught_up("c2", ["0_1", "0_3"], names)]
    plan = assign(tasks(*names), processes, StreamsSettings(acceptable_recovery_lag=100))
    assert active_of(plan, "c1", "c2") == [["0_0", "0_2"], ["0_1", "0_3"]]
    assert not plan.probing


def test_kip_441_stateless_tasks_balance_the_total_while_stateful_ones_wait():
    """Only c1 is caught up and runs all stateful tasks: c2 gets all stateless ones."""
    names = ["0_0", "0_1", "0_2", "0_3"]
    processes = [caught_up("c1", names, names), caught_up("c2", [], names)]
    work = tasks(*names) + tasks("1_0", "1_1", "1_2", stateful=False)
    plan = assign(work, processes, StreamsSettings(acceptable_recovery_lag=100, standby_replicas=1))
    assert active_of(plan, "c1", "c2") == [names, ["1_0", "1_1", "1_2"]]
    assert plan.probing


# --- KIP-708: standbys over tags


def tagged(name, zone, cluster, threads=1):
    return process(name, threads=threads, tags={"zone": zone, "cluster": cluster})


def standbys_of(processes, active, *, replicas, tags):
    """The standbys by task, where the active tasks are given; Kafka's tests start there too."""
    chosen = StreamsSettings(standby_replicas=replicas, rack_aware_tags=tags)
    app = Application.build(tasks(*active), processes, chosen)
    where = np.array([app.processes.index(active[task]) for task in app.tasks])
    found = assign_standbys(app, where, chosen)
    names = {
        task: {app.processes[p] for p in process_ids}
        for task, process_ids in zip(app.tasks, found.processes, strict=True)
    }
    return names, found.warnings


NODES = {
    f"p{3 * c + z + 1}": (f"zone{z + 1}", f"cluster{c + 1}") for c in range(3) for z in range(3)
}


def nine(threads=2):
    return [tagged(name, zone, cluster, threads) for name, (zone, cluster) in NODES.items()]


def count_of(found):
    return {name: sum(name in process_ids for process_ids in found.values()) for name in NODES}


def test_kip_708_active_tasks_in_one_zone():
    active = {"0_0": "p1", "1_0": "p1", "0_1": "p4", "1_1": "p4", "0_2": "p7", "1_2": "p7"}
    found, warnings = standbys_of(nine(), active, replicas=2, tags=("zone", "cluster"))
    valid = {
        "p1": [{"p9", "p5"}, {"p6", "p8"}],
        "p4": [{"p2", "p9"}, {"p3", "p8"}],
        "p7": [{"p5", "p3"}, {"p2", "p6"}],
    }
    assert all(found[task] in valid[where] for task, where in active.items())
    assert count_of(found) == {
        name: 0 if zone == "zone1" else 2 for name, (zone, _) in NODES.items()
    }
    assert warnings == ()


def test_kip_708_active_tasks_in_one_cluster():
    active = {"0_0": "p1", "1_0": "p1", "0_1": "p2", "1_1": "p2", "0_2": "p3", "1_2": "p3"}
    found, warnings = standbys_of(nine(), active, replicas=2, tags=("zone", "cluster"))
    valid = {
        "p1": [{"p9", "p5"}, {"p6", "p8"}],
        "p2": [{"p4", "p9"}, {"p6", "p7"}],
        "p3": [{"p5", "p7"}, {"p4", "p8"}],
    }
    assert all(found[task] in valid[where] for task, where in active.items())
    assert count_of(found) == {
        name: 0 if cluster == "cluster1" else 2 for name, (_, cluster) in NODES.items()
    }
    assert warnings == ()


def test_kip_708_partial_awareness_where_a_tag_has_too_few_values():
    """Two clusters for three copies: the second standby is told apart by its zone alone."""
    processes = [tagged(name, *where) for name, where in list(NODES.items())[:6]]
    found, warnings = standbys_of(
        processes, {"0_0": "p1", "1_0": "p6"}, replicas=2, tags=("cluster", "zone")
    )
    assert found["0_0"] in [{"p5", "p3"}, {"p5", "p6"}]
    assert found["1_0"] in [{"p2", "p4"}, {"p2", "p1"}]
    assert warnings == (
        (
            "tag 'cluster': the copies of 2 tasks share one of its 2 values;"
            " start processes with other values"
        ),
    )


def test_kip_708_zones_count_even_where_all_are_full():
    processes = [tagged(f"p{n}", f"zone{(n - 1) % 3 + 1}", "cluster1") for n in range(1, 7)]
    zone = {each.id: each.tags["zone"] for each in processes}
    active = dict(
        zip(
            ["0_0", "0_1", "0_2", "1_0", "1_1", "1_2"], [each.id for each in processes], strict=True
        )
    )
    found, _ = standbys_of(processes, active, replicas=1, tags=("zone", "cluster"))
    assert sorted(name for process_ids in found.values() for name in process_ids) == [
        each.id for each in processes
    ]
    assert all(
        zone[name] != zone[active[task]]
        for task, process_ids in found.items()
        for name in process_ids
    )


def test_kip_708_tags_that_are_not_asked_for_are_ignored():
    processes = [
        tagged("p1", "zone1", "cluster1"),
        tagged("p2", "zone2", "cluster1", 2),
        tagged("p3", "zone1", "cluster2"),
    ]
    found, _ = standbys_of(processes, {"0_0": "p1"}, replicas=1, tags=("cluster",))
    assert found == {"0_0": {"p3"}}


def test_kip_708_one_value_under_two_tags_is_two_values():
    processes = [tagged("p1", "zone1", "cluster1", 2), tagged("p2", "cluster1", "cluster3", 2)]
    found, warnings = standbys_of(processes, {"0_0": "p1"}, replicas=1, tags=("zone", "cluster"))
    assert found == {"0_0": {"p2"}}
    assert warnings == ()


def test_kip_708_the_least_loaded_where_all_tags_are_equal():
    processes = [tagged(f"p{n}", "zone1", "cluster1", 3) for n in range(1, 5)]
    active = {"0_0": "p1", "0_1": "p2", "0_2": "p3", "1_0": "p4"}
    found, warnings = standbys_of(processes, active, replicas=1, tags=("cluster", "zone"))
    assert sorted(name for process_ids in found.values() for name in process_ids) == [
        "p1",
        "p2",
        "p3",
        "p4",
    ]
    assert len(warnings) == 2


def test_kip_708_no_standby_where_there_is_one_process():
    found, warnings = standbys_of(
        [tagged("p1", "zone1", "cluster1", 3)], {"0_0": "p1"}, replicas=1, tags=("zone",)
    )
    assert found == {"0_0": set()}
    assert warnings


def test_kip_708_availability_zones_of_the_custom_assignor():
    processes = [
        process(f"p{n}", threads=2, tags={"az": az}) for n, az in enumerate("1123", start=1)
    ]
    found, _ = standbys_of(processes, {"0_0": "p1"}, replicas=2, tags=("az",))
    assert found == {"0_0": {"p3", "p4"}}


# --- KIP-925: racks

STRATEGIES = ["min_traffic", "balance_subtopology"]


def racked(name, racks, log_racks=()):
    subtopology, partition = name.split("_")
    return Task(
        subtopology=subtopology,
        partition=int(partition),
        input_racks=[racks] if racks else [],
        changelog_racks=[log_racks] if log_racks else [],
        end_offset_sum=0,  # nothing to restore: only racks count
    )


def cost_of(app, where, chosen):
    """KIP-925's cost of an assignment: traffic, and tasks that moved."""
    rows = np.arange(len(app.tasks))
    crossing = int(app.input_misses[rows, app.rack[where]].sum())
    return chosen.traffic_cost * crossing, chosen.non_overlap_cost * int(
        np.count_nonzero(where != app.owner)
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kip_925_two_tasks_change_places_and_stay(strategy):
    work = [racked("0_0", {"rack-2"}), racked("0_1", {"rack-1"})]
    processes = [
        process("c1", rack="rack-1", active=["0_0"]),
        process("c2", rack="rack-2", active=["0_1"]),
    ]
    chosen = StreamsSettings(rack_strategy=strategy, traffic_cost=100, non_overlap_cost=1)
    plan = assign(work, processes, chosen)
    assert active_of(plan, "c1", "c2") == [["0_1"], ["0_0"]]
    assert assign(work, apply_plan(processes, plan), chosen).processes == plan.processes


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kip_925_optimal_without_any_crossing(strategy):
    """Traffic 10, moves 1: from a cost of 40 to one of 4; all four tasks move and none crosses."""
    work = [
        racked("0_0", {"a"}),
        racked("0_1", {"b", "c"}),
        racked("1_0", {"a", "c"}),
        racked("1_1", {"b"}),
    ]
    processes = [
        process("c1", rack="a", active=["0_1", "1_1"]),
        process("c2", rack="b", active=["1_0"]),
        process("c3", rack="c", active=["0_0"]),
    ]
    chosen = StreamsSettings(rack_strategy=strategy)
    app = Application.build(work, processes, chosen)
    assert cost_of(app, app.owner, chosen) == (40, 0)
    assert cost_of(app, assign_stateful(app, chosen), chosen) == (0, 4)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kip_925_balance_is_worth_more_than_traffic(strategy):
    """All three are near c2 and none near c5; one stays on c5, and the cost stays 10."""
    work = [racked("0_0", {"b"}), racked("0_1", {"b"}), racked("1_1", {"b"})]
    processes = [
        process("c2", rack="b", active=["0_0", "1_1"]),
        process("c5", rack="e", active=["0_1"]),
    ]
    chosen = StreamsSettings(rack_strategy=strategy)
    app = Application.build(work, processes, chosen)
    where = assign_stateful(app, chosen)
    assert [app.processes[p] for p in where] == ["c2", "c5", "c2"]
    assert cost_of(app, where, chosen) == (10, 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kip_925_nothing_moves_where_traffic_costs_nothing(strategy):
    work = [racked("0_0", {"rack-2"}), racked("0_1", {"rack-1"})]
    processes = [
        process("c1", rack="rack-1", active=["0_0"]),
        process("c2", rack="rack-2", active=["0_1"]),
    ]
    plan = assign(work, processes, StreamsSettings(rack_strategy=strategy, traffic_cost=0))
    assert active_of(plan, "c1", "c2") == [["0_0"], ["0_1"]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kip_925_tasks_with_replicas_in_several_racks_stay(strategy):
    work = [racked("0_0", {"r1", "r2"}), racked("0_1", {"r2", "r3"}), racked("0_2", {"r3", "r4"})]
    processes = [
        process(f"c{n}", rack=f"r{n}", active=[f"0_{n - 1}"], threads=2) for n in (1, 2, 3)
    ]
    plan = assign(work, processes, StreamsSettings(rack_strategy=strategy, traffic_cost=100))
    assert active_of(plan, "c1", "c2", "c3") == [["0_0"], ["0_1"], ["0_2"]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kip_925_standbys_move_next_to_their_changelogs(strategy):
    work = [racked("0_0", (), {"r2"}), racked("0_1", (), {"r3"})]
    processes = [
        process("c1", rack="r1", active=["0_0", "0_1"], threads=2),
        process("c2", rack="r2", standby=["0_1"], threads=2),
        process("c3", rack="r3", standby=["0_0"], threads=2),
    ]
    chosen = StreamsSettings(rack_strategy=strategy, traffic_cost=100, standby_replicas=1)
    app = Application.build(work, processes, chosen)
    found = assign_standbys(app, np.array([0, 0]), chosen).processes
    assert [[app.processes[p] for p in process_ids] for process_ids in found] == [["c2"], ["c3"]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kip_925_traffic_never_breaks_the_tags(strategy):
    """Kafka's step for racks alone leaves it on c2; its assignor as a whole prefers the idle c4."""
    work = [racked("0_0", {"r1"}, {"r1"}), racked("0_1", {"r1"}, {"r1"})]

    def zoned(name, az, active=(), standby=()):
        return process(name, rack="r1", tags={"az": az}, active=active, standby=standby, threads=2)

    processes = [
        zoned("c1", "1", ["0_0"], ["0_1"]),
        zoned("c2", "2", ["0_1"], ["0_0"]),
        zoned("c3", "3", [], ["0_0", "0_1"]),
        zoned("c4", "2"),
    ]
    chosen = StreamsSettings(
        rack_strategy=strategy, traffic_cost=100, standby_replicas=2, rack_aware_tags=("az",)
    )
    app = Application.build(work, processes, chosen)
    found = assign_standbys(app, np.array([0, 1]), chosen).processes
    assert [[app.processes[p] for p in process_ids] for process_ids in found] == [
        ["c3", "c4"],
        ["c1", "c3"],
    ]


# --- the blog: co-localisation, active and standby


def test_blog_co_partitioned_topics_stay_together():
    """Partition i of both topics is one task, so whoever joins them has both."""
    topics = {"A": SourceTopic(partitions=2), "B": SourceTopic(partitions=3)}
    work = Subtopology(id="0", sources=["A", "B"], changelogs=[]).tasks(topics)
    assert [task.id for task in work] == ["0_0", "0_1", "0_2"]
    known = {
        "A": SourceTopic(partitions=2, replica_racks=[["a"], ["b"]]),
        "B": SourceTopic(partitions=3, replica_racks=[["a"], ["b"], ["c"]]),
    }
    racks = [task.input_racks for task in Subtopology(id="0", sources=["A", "B"]).tasks(known)]
    assert racks == [[["a"], ["a"]], [["b"], ["b"]], [["c"]]]


def test_blog_state_is_kept_for_active_and_standby_tasks():
    work = tasks_of(1, 4, end=100_000)
    processes = [
        StreamsProcess(id=each.id, consumers=each.consumers)
        for each in (process("c1"), process("c2"))
    ]
    first = assign(work, processes, StreamsSettings(standby_replicas=1))
    again = assign(work, apply_plan(processes, first), StreamsSettings(standby_replicas=1))
    assert again.processes == first.processes
    running, followed = processes_by_task(first), processes_by_task(first, "standby")
    assert all(followed[task] == ["c2" if name == "c1" else "c1"] for task, name in running.items())
