"""Faults: what they do to a world, and the list of them that a seed decides.

Each fault has a time, so that the list of a run can be cut down to the shortest that still fails.
"""

from dataclasses import dataclass
from random import Random

LONGEST_WAIT_FOR_AN_EFFECT_SECONDS = 3.0
"""A fault that waits for an effect happens after this time at the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. `target` names an instance, a machine, a topic or a group."""

    at: float
    kind: str
    target: str = ""
    seconds: float = 0.0
    amount: float = 0.0
    effect: int | None = None
    """The fault happens at this effect of the process after `at`; None: at once."""

    @property
    def ends(self):
        waited = 0.0 if self.effect is None else LONGEST_WAIT_FOR_AN_EFFECT_SECONDS
        return self.at + waited + self.seconds

    def __str__(self):
        parts = [f"at {self.at:7.2f} s  {self.kind}"]
        if self.target:
            parts.append(self.target)
        if self.seconds:
            parts.append(f"for {self.seconds:g} s")
        if self.amount:
            parts.append(f"({self.amount:g})")
        if self.effect is not None:
            parts.append(f"at its effect {self.effect}")
        return " ".join(parts)


# What each fault does. `world.member(target)` is the process that runs under an instance's name.


def _kill(world, fault):
    """SIGKILL, and a new process of the instance after `seconds`, if any."""
    process = world.member(fault.target)
    if process is not None:
        process.end("killed")
    if fault.seconds:
        world.scheduler.after(fault.seconds, None, world.start_member, fault.target)


def _leave(world, fault):
    process = world.member(fault.target)
    if process is not None:
        process.leave()
    if fault.seconds:
        world.scheduler.after(fault.seconds, None, world.start_member, fault.target)


def _join(world, fault):
    world.start_member(fault.target)


def _twin(world, fault):
    """Run a second process of the same instance name for some time."""
    twin = world.start_member(fault.target, twin=True)
    world.scheduler.after(fault.seconds, None, world.end_twin, twin)


def _pause(world, fault):
    process = world.member(fault.target)
    if process is not None:
        process.stop_for(fault.seconds)


def _sleep(world, fault):
    """Put a machine to sleep: its processes stop, and so does its monotonic clock."""
    world.put_to_sleep(fault.target, fault.seconds)


def _cut(world, fault):
    link = world.member_link(fault.target)
    link.cut(world.scheduler.now + fault.seconds, holds=fault.amount < 0.5)


def _cut_requests(world, fault):
    link = world.member_link(fault.target)
    until = world.scheduler.now + fault.seconds
    link.cut(until, holds=fault.amount < 0.5, answers=False)


def _cut_answers(world, fault):
    """The member can write, but reads nothing."""
    link = world.member_link(fault.target)
    until = world.scheduler.now + fault.seconds
    link.cut(until, holds=fault.amount < 0.5, requests=False)


def _slow(world, fault):
    link = world.member_link(fault.target)
    link.slow_until = world.scheduler.now + fault.seconds
    link.slowest = fault.amount


def _late_answers(world, fault):
    link = world.member_link(fault.target)
    link.late_answers_until = world.scheduler.now + fault.seconds
    link.answer_delay = fault.amount


def _lag(world, fault):
    link = world.member_link(fault.target)
    link.lag_until = world.scheduler.now + fault.seconds
    link.most_lag = fault.amount


def _stale(world, fault):
    """Let a process read its partition of the assignments from a leader that was deposed."""
    link = world.member_link(fault.target)
    for partition in world.cluster.partitions["assignments"]:
        link.stale_ends[partition] = partition.stable_end
    world.scheduler.after(fault.seconds, None, world.end_stale, link)


def _planner_stale(world, fault):
    link = world.planner_link()
    for partition in world.cluster.partitions["members"]:
        link.stale_ends[partition] = partition.stable_end
    world.scheduler.after(fault.seconds, None, world.end_stale, link)


def _slow_handlers(world, fault):
    """Handlers of the instance take up to `max.poll.interval`, or beyond with an amount above 1."""
    world.handlers[fault.target] = (world.scheduler.now + fault.seconds, fault.amount)


def _late_record(world, fault):
    """Hold back what the member announces next, and replace its producer: its records overtake."""
    world.member_link(fault.target).hold_next = fault.seconds


def _late_commits(world, fault):
    world.late_commits[fault.target] = (world.scheduler.now + 10.0, fault.seconds)


def _unreadable(world, fault):
    process = world.member(fault.target)
    if process is not None:
        process.unreadable_until = world.scheduler.now + fault.seconds


def _planner_kill(world, fault):
    world.kill_planner(restart_after=fault.seconds)


def _planner_pause(world, fault):
    if world.planner is not None:
        world.planner.stop_for(fault.seconds)


def _second_planner(world, fault):
    """Start another daemon while the first one runs, or is paused for some time."""
    if world.planner is not None and fault.seconds:
        world.planner.stop_for(fault.seconds)
    if sum(planner.alive for planner in world.planners) < 2:
        world.start_planner()


def _planner_cut(world, fault):
    link = world.planner_link()
    link.cut(world.scheduler.now + fault.seconds, holds=fault.amount < 0.5)


def _planner_slow(world, fault):
    link = world.planner_link()
    link.slow_until = world.scheduler.now + fault.seconds
    link.slowest = fault.amount


def _planner_lag(world, fault):
    link = world.planner_link()
    link.lag_until = world.scheduler.now + fault.seconds
    link.most_lag = fault.amount


def _late_markers(world, fault):
    world.cluster.late_markers_until = world.scheduler.now + fault.seconds
    world.cluster.latest_marker = fault.amount


def _lost_answers(world, fault):
    """Lose answers to commits of transactions: the planner publishes twice."""
    world.cluster.loses_commit_answers_until = world.scheduler.now + fault.seconds


def _outage(world, fault):
    """No broker answers anybody."""
    until = world.scheduler.now + fault.seconds
    for link in world.links():
        link.cut(until, holds=fault.amount < 0.5)


def _compact(world, _fault):
    for kind in ("members", "assignments"):
        for partition in world.cluster.partitions[kind]:
            partition.compact(world.scheduler.now, tombstones_older_than=60.0)


def _request(world, fault):
    world.inputs.request_plan(fault.target)


def _lags(world, fault):
    """Report another lag of a group's partitions, and ask for a plan by it."""
    world.inputs.report_lag(fault.target, Random(fault.amount))
    world.inputs.request_plan(fault.target)


def _topic_gone(world, fault):
    world.inputs.delete_topic(fault.target)
    world.scheduler.after(fault.seconds, None, world.inputs.create_topic, fault.target)


def _topic_grows(world, fault):
    world.inputs.grow_topic(fault.target)


def _topics_anew(world, fault):
    """Levelwind's own topics are deleted; every daemon ends, and one makes them as it starts."""
    world.clear_own_topics()
    world.end_planners("its topics are gone")
    world.scheduler.after(fault.seconds, None, world.start_planner)


APPLY = {
    "kill": _kill,
    "leave": _leave,
    "join": _join,
    "twin": _twin,
    "pause": _pause,
    "sleep": _sleep,
    "cut": _cut,
    "cut requests": _cut_requests,
    "cut answers": _cut_answers,
    "slow link": _slow,
    "late answers": _late_answers,
    "lagging reader": _lag,
    "deposed leader": _stale,
    "slow handlers": _slow_handlers,
    "late record": _late_record,
    "late commits": _late_commits,
    "unreadable eviction": _unreadable,
    "planner killed": _planner_kill,
    "planner paused": _planner_pause,
    "second planner": _second_planner,
    "planner cut off": _planner_cut,
    "planner's slow link": _planner_slow,
    "planner's lagging reader": _planner_lag,
    "planner's deposed leader": _planner_stale,
    "late markers": _late_markers,
    "lost answers of commits": _lost_answers,
    "outage": _outage,
    "compaction": _compact,
    "request": _request,
    "other lag": _lags,
    "topic gone": _topic_gone,
    "topic grows": _topic_grows,
    "own topics anew": _topics_anew,
}
AT_AN_EFFECT = {"kill", "pause", "planner killed", "planner paused"}
"""Faults that may wait for one of the next effects of their process."""
OF_A_MEMBER = {
    "kill", "leave", "twin", "pause", "cut", "cut requests", "cut answers", "slow link",
    "late answers", "lagging reader", "deposed leader", "slow handlers", "late record",
    "late commits", "unreadable eviction",
}  # fmt: skip


def inject(world, fault):
    """Let a fault happen now, or at an effect of its process."""
    world.trace(None, "FAULT", str(fault))
    if fault.effect is None or fault.kind not in AT_AN_EFFECT:
        APPLY[fault.kind](world, fault)
        return
    of_planner = fault.kind.startswith("planner")
    process = world.planner if of_planner else world.member(fault.target)
    if process is None:
        return

    def happen():
        process.countdown = process.at_countdown = None
        APPLY[fault.kind](world, fault)

    def happen_at_last():
        if process.at_countdown is happen and process.alive:
            happen()

    process.countdown = fault.effect
    process.at_countdown = happen
    world.scheduler.after(LONGEST_WAIT_FOR_AN_EFFECT_SECONDS, None, happen_at_last)
