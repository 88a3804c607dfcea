"""Observes the cluster: changes of its layout and samples of its offsets, published to the metadata topic.

Two jobs of a scheduler, each with one instance at most: a tick that is still at work when the next is due makes that one
drop out, which is said, and never piles up. The layout's job owns the published state; the samples' job reads it. A
change counts as published once the brokers have acknowledged it; until then every tick finds it anew. A sample that is
lost is replaced by the next.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED

from assignors.protocol import partition_ranges as ranges
from assignors.protocol.records import BrokerRecord, Tombstone, TopicRecord
from daemon.errors import ClusterUnavailableError, NotFoundError
from daemon.kafka import clients
from daemon.observer.cluster_probe import (
    UnansweredError,
    begins_due,
    look,
    read_offsets,
)
from daemon.observer.cluster_state import (
    UNKNOWN,
    ClusterState,
    Selection,
    diff,
    moved_racks,
    moved_since,
    never_seen,
    sample,
    settled,
    went_back,
)
from daemon.observer.last_records import (
    Tails,
    places_of,
)
from daemon.observer.metadata_topic import MetadataTopic
from daemon.telemetry.throttle import (
    Outage,
    Throttle,
    changes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from apscheduler.events import JobEvent
    from apscheduler.schedulers.base import BaseScheduler

    from assignors.protocol.records import OffsetsRecord
    from assignors.protocol.topics import Topics
    from daemon.observer.cluster_probe import (
        Offsets,
        Place,
    )
    from daemon.observer.cluster_state import (
        Change,
        Observation,
    )
    from daemon.observer.settings import ObserverSettings

METADATA_JOB = "observer.metadata"
OFFSETS_JOB = "observer.offsets"
EXAMPLES = 5
LONGEST_REST = 10.0
"""Seconds. What else the process does meanwhile counts as a tick's work, so there is an end to it."""


class Observer:
    """Both jobs, and what they know."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Topics,
        settings: ObserverSettings,
        log: Any = None,
        ticked: Callable[[str, float, bool], None] = lambda *_: None,
    ) -> None:
        """`ticked` is told of each tick, its seconds and whether the cluster answered."""
        self._ticked = ticked
        self._settings = settings
        self._log = log or structlog.get_logger()
        self._selection = Selection.of(
            settings.include, (*settings.exclude, re.escape(topics.prefix) + ".*")
        )
        self._client = clients.admin(client_config)
        self._topic = MetadataTopic(client_config, topics, self._log)
        self._scheduler: BaseScheduler | None = None
        self._skips: Throttle[str] = Throttle(interval=30.0)
        # Of the layout's job alone; the samples' job reads the state, which is replaced and never changed.
        self._state: ClusterState | None = None
        self._looks = 0
        self._unreadable: Mapping[str, str] = {}
        self._never_seen: frozenset[int] = frozenset()
        self._commit_partitions = 0
        # Of both: the samples' job raises it, the layout's lowers it.
        self._shrunk = False
        # Of the samples' job alone.
        self._samples = 0
        self._begins: Mapping[tuple[str, int], int] = {}  # by topic id and partition
        self._highs: Mapping[tuple[str, int], int] = {}  # likewise
        self._missed: frozenset[Place] = frozenset()  # not read the last time
        self._unknown: Mapping[str, tuple[int, ...]] = {}  # not read at least twice, by topic
        self._commits: dict[int, int] = {}  # the last known stable ends of the offsets topic
        self._tails = Tails(client_config)
        self._told: Mapping[str, OffsetsRecord] = {}  # the last samples, by topic
        # One for each job, written by it alone.
        self._outages = {METADATA_JOB: Outage(), OFFSETS_JOB: Outage()}
        self._rested_at = {METADATA_JOB: 0.0, OFFSETS_JOB: 0.0}

    def schedule(self, scheduler: BaseScheduler) -> None:
        """Put both jobs into a scheduler; the first ticks are due at once."""
        self._scheduler = scheduler
        scheduler.add_listener(
            self._on_job, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED | EVENT_JOB_ERROR
        )
        for job, tick, interval in (
            (METADATA_JOB, self.tick_metadata, self._settings.metadata_interval),
            (OFFSETS_JOB, self.tick_offsets, self._settings.offsets_interval),
        ):
            scheduler.add_job(
                self._when_rested,
                "interval",
                seconds=interval,
                args=(job, tick),
                id=job,
                max_instances=1,
                coalesce=True,
                misfire_grace_time=max(1, round(interval)),
                next_run_time=datetime.now(UTC),
            )

    def close(self) -> None:
        """Take the jobs out again and send what is still to be sent."""
        if self._scheduler is not None:
            self._scheduler.remove_listener(self._on_job)
            for job in (METADATA_JOB, OFFSETS_JOB):
                if self._scheduler.get_job(job) is not None:
                    self._scheduler.remove_job(job)
        self._tails.close()
        self._topic.close()

    def _when_rested(self, job: str, tick: Callable[[], None]) -> None:
        """Tick, unless the last one was so much work that it is too early."""
        begun, worked = time.monotonic(), time.process_time()
        if begun < self._rested_at[job]:
            return
        tick()
        worked = time.process_time() - worked  # the library's own threads do most of it
        self._rested_at[job] = begun + min(worked / self._settings.max_cpu_share, LONGEST_REST)

    def tick_metadata(self) -> None:
        """Look at the cluster's layout and publish what is new."""
        self._attempt(METADATA_JOB, self._observe)

    def tick_offsets(self) -> None:
        """Publish a sample of the offsets of each topic known; none before the first look at the layout."""
        if self._state is not None:
            self._attempt(OFFSETS_JOB, self._sample)

    def _attempt(self, job: str, act: Callable[[], None]) -> None:
        outage = self._outages[job]
        tick = job.rpartition(".")[2]
        if outage.pausing(time.monotonic()):
            return
        self._client.poll(0)  # hands on what the library has logged
        begun = time.monotonic()
        try:
            act()
        except (UnansweredError, ClusterUnavailableError, NotFoundError) as error:
            self._ticked(tick, time.monotonic() - begun, False)
            if outage.lost(time.monotonic()):
                self._log.warning("observer.unreachable", tick=tick, error=str(error))
        else:
            self._ticked(tick, time.monotonic() - begun, True)
            lasted = outage.regained(time.monotonic())
            if lasted is not None:
                self._log.info("observer.resumed", tick=tick, seconds=round(lasted, 3))

    def _observe(self) -> None:
        if self._state is None:
            recovered = self._topic.recover()
            self._log.info(
                "observer.recovered", brokers=len(recovered.brokers), topics=len(recovered.topics)
            )
        else:
            recovered = self._state
        whole = self._shrunk or self._looks % self._settings.full_describe_every == 0
        self._shrunk = False
        observed = look(
            self._client, self._selection, recovered, _now(), self._settings.timeout, whole=whole
        )
        self._looks += 1
        state, news = diff(recovered, observed)
        if news:
            self._topic.publish(news)
        self._state = state
        self._commit_partitions = observed.commit_partitions
        self._tell(recovered, news)
        self._tell_of_the_unseen(observed, state)

    def _tell(self, before: ClusterState, news: Iterable[Change]) -> None:
        moved: set[Place] = set()
        for change in news:
            match change:
                case BrokerRecord(online=True):
                    self._log.info("observer.broker_online", broker=change.broker, rack=change.rack)
                case BrokerRecord():
                    self._log.warning(
                        "observer.broker_offline", broker=change.broker, rack=change.rack
                    )
                case TopicRecord():
                    self._log.debug(
                        "observer.topic_changed",
                        topic=change.topic,
                        id=change.id,
                        partitions=change.partitions,
                    )
                    moved |= moved_racks(before.topics.get(change.topic), change)
                case Tombstone(key=("topic", name)):
                    self._log.info("observer.topic_deleted", topic=name)
        if moved:
            self._log.info("observer.racks_changed", **_summary(ranges.by_topic(moved)))

    def _tell_of_the_unseen(self, observed: Observation, state: ClusterState) -> None:
        begun, ended = changes(self._unreadable, observed.unreadable)
        for topic, error in sorted(begun.items()):
            self._log.warning("observer.topic_unreadable", topic=topic, error=error)
        for topic in sorted(ended):
            self._log.info("observer.topic_readable", topic=topic)
        self._unreadable = observed.unreadable
        unseen = never_seen(state)
        if new := sorted(unseen - self._never_seen):
            self._log.warning("observer.racks_unknown", brokers=new)
        self._never_seen = unseen

    def _sample(self) -> None:
        state = self._state or ClusterState()
        unreadable = self._unreadable
        readable = [topic for topic in state.topics.values() if topic.topic not in unreadable]
        self._samples += 1
        due = begins_due(
            readable, self._begins, all_=self._samples % self._settings.begin_offsets_every == 0
        )
        led = [
            (leader, topic.topic, number)
            for topic in readable
            for number, leader in enumerate(topic.leader)
            if leader != UNKNOWN
        ]
        places = [(name, number) for _, name, number in sorted(led)]
        at = _now()
        count = self._commit_partitions
        offsets = read_offsets(
            self._client,
            places,
            due,
            self._settings.timeout,
            settled=settled(self._told, readable),
            commit_partitions=count,
        )
        self._begins = _known(state.topics, self._begins, offsets.begin)
        highs = _known(state.topics, self._highs, offsets.high)
        self._shrunk = self._shrunk or went_back(self._highs, highs)
        self._highs = highs
        known = {number: end for number, end in self._commits.items() if number < count}
        self._commits = {**known, **offsets.commits}
        self._tails.sampled(
            {(state.topics[name].id, number): end for (name, number), end in offsets.stable.items()}
        )
        self._tell_of_unknown(readable, offsets)
        samples = [self._sampled(topic, at, offsets) for topic in state.topics.values()]
        all_ = self._samples % self._settings.unchanged_sample_every == 0
        self._topic.offer(samples if all_ else moved_since(self._told, samples))
        self._told = {one.topic: one for one in samples}
        if (
            self._settings.detect_control_records
        ):  # what is found goes with the next sample: none waits for it
            named = places_of((topic.id, topic.topic, topic.partitions) for topic in readable)
            self._tails.look(named, self._begins, self._settings.timeout)

    def _sampled(self, topic: TopicRecord, at: int, offsets: Offsets) -> OffsetsRecord:
        numbers = range(topic.partitions)
        return sample(
            topic,
            at,
            [self._begins.get((topic.id, number), UNKNOWN) for number in numbers],
            [offsets.stable.get((topic.topic, number), UNKNOWN) for number in numbers],
            [offsets.high.get((topic.topic, number), UNKNOWN) for number in numbers],
            [self._tails.data((topic.id, number)) for number in numbers],
            [self._commits[number] for number in sorted(self._commits)]
            if len(self._commits) == self._commit_partitions
            else (),
        )

    def _tell_of_unknown(self, topics: Iterable[TopicRecord], offsets: Offsets) -> None:
        """Say what could not be read twice in a row: an election is over by the second time, and no news."""
        missed = {
            (topic.topic, number): "no leader"
            if leader == UNKNOWN
            else offsets.failed[topic.topic, number]
            for topic in topics
            for number, leader in enumerate(topic.leader)
            if leader == UNKNOWN or (topic.topic, number) in offsets.failed
        }
        unknown = ranges.by_topic(missed.keys() & self._missed)
        begun, ended = changes(self._unknown, unknown)
        if begun:
            error = next(error for (name, _), error in missed.items() if name in begun)
            self._log.warning("observer.offsets_unknown", error=error, **_summary(begun))
        if ended:
            self._log.info(
                "observer.offsets_known", **_summary({name: self._unknown[name] for name in ended})
            )
        self._missed, self._unknown = frozenset(missed), unknown

    def _on_job(self, event: JobEvent) -> None:
        if event.job_id not in self._outages:
            return
        tick = event.job_id.rpartition(".")[2]
        if event.code == EVENT_JOB_ERROR:
            self._log.error(
                "observer.tick_failed",
                tick=tick,
                error=repr(event.exception),
                traceback=event.traceback,
            )
            return
        # While the cluster is away a tick takes as long as its time-out: that has been said.
        if self._outages[event.job_id].since is None:
            held = self._skips.allows(tick, time.monotonic())
            if held is not None:
                reason = (
                    "late" if event.code == EVENT_JOB_MISSED else "the one before is still at work"
                )
                self._log.warning(
                    "observer.tick_skipped", tick=tick, reason=reason, suppressed=held
                )


def _known(
    topics: Mapping[str, TopicRecord],
    before: Mapping[tuple[str, int], int],
    read: Mapping[Place, int],
) -> dict[tuple[str, int], int]:
    """The offsets that are known after a reading, of the topics that there are."""
    ids = {topic.id for topic in topics.values()}
    now = {(topics[name].id, number): offset for (name, number), offset in read.items()}
    return {**{place: offset for place, offset in before.items() if place[0] in ids}, **now}


def _summary(by_topic: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """What a line says of any number of topics: how many, and the first few by name."""
    return {
        "topics": len(by_topic),
        "partitions": sum(map(len, by_topic.values())),
        "examples": {name: ranges.format(by_topic[name]) for name in sorted(by_topic)[:EXAMPLES]},
    }


def _now() -> int:
    return time.time_ns() // 1_000_000
