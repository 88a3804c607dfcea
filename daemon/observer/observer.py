"""Observer: publishes layout changes and offset samples of the cluster to the metadata topic.

Two jobs of a scheduler run with at most one instance each: a tick that is still running when the
next one is due makes the next one drop out, which is logged, so ticks never pile up. The layout job
owns the published state; the samples' job reads it. A change counts as published once the brokers
have acknowledged it; until then every tick finds it again. A lost sample is replaced by the next
one.
"""

from __future__ import annotations

import math
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from apscheduler.executors.pool import BasePoolExecutor

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import BrokerRecord, Tombstone, TopicRecord
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.daemon.errors import ClusterUnavailableError, NotFoundError
from levelwind.daemon.kafka import clients
from levelwind.daemon.observer.cluster_probe import (
    UnansweredError,
    begins_due,
    probe_cluster,
    read_offsets,
)
from levelwind.daemon.observer.cluster_state import (
    UNKNOWN,
    ClusterState,
    broker_counts,
    changed_samples,
    diff,
    end_offset_regressed,
    leader_only_brokers,
    partitions_with_moved_racks,
    sample,
    stable_at_high_watermark,
    unseen_brokers,
    with_deleted,
    without,
)
from levelwind.daemon.observer.held_commits import HeldCommits
from levelwind.daemon.observer.last_records import LogTails, partitions_by_id
from levelwind.daemon.observer.metadata_topic import MetadataTopic
from levelwind.daemon.observer.probe_round import ProbeRound
from levelwind.daemon.observer.selection import Selection
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.telemetry.throttle import Outage, Throttle, changes
from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from apscheduler.events import JobEvent
    from apscheduler.schedulers.base import BaseScheduler
    from confluent_kafka.admin import AdminClient

    from levelwind.assignors.protocol.records import OffsetsRecord
    from levelwind.assignors.protocol.topics import Topics
    from levelwind.daemon.observer.cluster_probe import Offsets, Partition
    from levelwind.daemon.observer.cluster_state import Change, ClusterSnapshot
    from levelwind.daemon.observer.settings import ObserverSettings

METADATA_JOB = "observer.metadata"
OFFSETS_JOB = "observer.offsets"
LAYOUT_TICK = METADATA_JOB.rpartition(".")[2]
"""Name by which `ticked` knows the tick that asks for the layout."""
EXAMPLES = 5
"""Topics that a log line names."""
LONGEST_REST_SECONDS = 10.0
"""Longest pause after an expensive tick. The CPU time of a tick includes other work of the process,
so the pause needs a bound."""
MOST_UNCHANGED_SECONDS = 30.0
"""Time after which a sample is published though nothing has changed. With the longest pause beside
it, lag is younger than the minute at which the alert `LevelwindLagOld` pages."""


class EndingClient:
    """An admin client that is asked nothing more once the observer ends.

    While brokers hang each request takes its whole time-out, and a tick makes a dozen of them.
    """

    def __init__(self, client: AdminClient, ending: threading.Event) -> None:
        self._client = client
        self._ending = ending

    def __getattr__(self, name: str) -> Any:
        """Return the client's attribute.

        Raises:
            UnansweredError: the observer ends.
        """
        if self._ending.is_set():
            raise UnansweredError("the observer ends")
        return getattr(self._client, name)


class _TickThread(BasePoolExecutor):  # type: ignore[misc]
    """The thread of one job, which runs already.

    A pool queues a tick before it asks the system for the thread. A tick that gets none would be
    done later all the same, and uncounted, so that the job's next one could run beside it.
    """

    def __init__(self) -> None:
        thread = ThreadPoolExecutor(1, "observer-tick")
        thread.submit(int)
        super().__init__(thread)


class Observer:
    """The layout job and the samples' job, and their state."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Topics,
        settings: ObserverSettings,
        log: Any = None,
        ticked: Callable[[str, float, bool], None] = lambda *_: None,
        counted_brokers: Callable[[int, int], None] = lambda *_: None,
        unwritten: UnwrittenRecords | None = None,
        commits_topic: str = OFFSETS_TOPIC,
    ) -> None:
        """Make an observer.

        Args:
            client_config: settings of the Kafka clients.
            topics: names of levelwind's topics.
            settings: intervals and selection.
            log: the logger; None for the process's.
            ticked: called after each tick with its name, its seconds and whether the cluster
                answered.
            counted_brokers: called after each sample with the number of brokers that hold
                partitions, and of those among them that did not answer.
            unwritten: takes the records that the metadata topic has no room for; None: they are
                only logged.
            commits_topic: the topic that the pipeline reads commits from.
        """
        self._ticked = ticked
        self._counted_brokers = counted_brokers
        self._settings = settings
        self._log = log or Logger()
        self._selection = Selection.of(
            settings.include, (*settings.exclude, re.escape(topics.prefix) + ".*")
        )
        self._ending = threading.Event()
        self._client: Any = EndingClient(clients.admin(client_config), self._ending)
        unwritten = unwritten or UnwrittenRecords(self._log)
        self._topic = MetadataTopic(client_config, topics, self._log, unwritten, self._ending)
        self._scheduler: BaseScheduler | None = None
        self._skips: Throttle[str] = Throttle(interval=30.0)
        # Written by the layout job alone; the samples' job reads the state, which is replaced and
        # never changed.
        self._state: ClusterState | None = None
        self._probes = 0
        self._unreadable: Mapping[str, str] = {}
        self._missing: frozenset[str] = frozenset()
        """Topics that brokers did not know in the last probe, known or deleted by now."""
        self._unseen_brokers: frozenset[int] = frozenset()
        self._leader_only_brokers: frozenset[int] = frozenset()
        self._commits_topic = commits_topic
        self._commit_partitions = 0
        # Set by the samples' job, cleared by the layout job.
        self._end_regressed = False
        # Used by the samples' job alone. Offsets are by topic id and partition.
        self._samples = 0
        self._all_published_at = -math.inf  # by the monotonic clock
        self._begins: Mapping[tuple[str, int], int] = {}
        self._highs: Mapping[tuple[str, int], int] = {}
        self._missed: frozenset[Partition] = frozenset()  # unread in the last sample
        self._unknown: Mapping[str, tuple[int, ...]] = {}  # unread in two samples or more
        self._commits: dict[int, int] = {}  # stable ends of the commits' topic
        self._tails = LogTails(client_config)
        self._held = HeldCommits(client_config, self._client, topics, self._log)
        self._published_samples: Mapping[str, OffsetsRecord] = {}  # last samples by topic
        # By job; each entry is written by its job alone.
        self._outages = {METADATA_JOB: Outage(), OFFSETS_JOB: Outage()}
        self._rested_at = {METADATA_JOB: 0.0, OFFSETS_JOB: 0.0}

    def schedule(self, scheduler: BaseScheduler) -> None:
        """Add both jobs to a scheduler; the first ticks are due at once.

        Raises:
            RuntimeError: the system gives no thread.
        """
        self._scheduler = scheduler
        scheduler.add_listener(
            self._on_job, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED | EVENT_JOB_ERROR
        )
        for job, tick, interval in (
            (METADATA_JOB, self.tick_metadata, self._settings.metadata_interval),
            (OFFSETS_JOB, self.tick_offsets, self._settings.offsets_interval),
        ):
            scheduler.add_executor(_TickThread(), job)
            scheduler.add_job(
                self._when_rested,
                "interval",
                executor=job,
                seconds=interval,
                args=(job, tick),
                id=job,
                max_instances=1,
                coalesce=True,
                misfire_grace_time=max(1, round(interval)),
                next_run_time=datetime.now(UTC),
            )

    def tick_now(self) -> None:
        """Make both ticks due now, after which they follow at their intervals again.

        To be called when the wall clock was set: the scheduler goes by it, and after a step back
        would let no tick follow until the clock has caught up.
        """
        if self._scheduler is not None:
            for job in (METADATA_JOB, OFFSETS_JOB):
                self._scheduler.modify_job(job, next_run_time=datetime.now(UTC))

    def ask_to_end(self) -> None:
        """Ask and write nothing more; returns at once.

        A tick that runs ends with the request that it waits for.
        """
        self._ending.set()

    def close(self) -> None:
        """Remove the jobs, send the pending records and close the clients; no tick may run."""
        self._ending.set()
        if self._scheduler is not None:
            self._scheduler.remove_listener(self._on_job)
            for job in (METADATA_JOB, OFFSETS_JOB):
                if self._scheduler.get_job(job) is not None:
                    self._scheduler.remove_job(job)
        self._tails.close()
        self._held.close()
        self._topic.close()

    def _when_rested(self, job: str, tick: Callable[[], None]) -> None:
        """Tick, unless the last tick took so much CPU that the next one has to wait."""
        begun, worked = time.monotonic(), time.process_time()
        if begun < self._rested_at[job]:
            return
        tick()
        worked = time.process_time() - worked  # mostly spent in librdkafka's threads
        self._rested_at[job] = begun + min(
            worked / self._settings.max_cpu_share, LONGEST_REST_SECONDS
        )

    def tick_metadata(self) -> None:
        """Probe the layout of the cluster and publish its changes."""
        self._attempt(METADATA_JOB, self._observe)

    def tick_offsets(self) -> None:
        """Publish an offset sample of each known topic; none before the first layout probe."""
        if self._state is not None:
            self._attempt(OFFSETS_JOB, self._sample)

    def _attempt(self, job: str, act: Callable[[], None]) -> None:
        outage = self._outages[job]
        tick = job.rpartition(".")[2]
        if self._ending.is_set() or outage.pausing(time.monotonic()):
            return
        begun = time.monotonic()
        try:
            self._client.poll(0)  # delivers librdkafka's log lines
            act()
        except (UnansweredError, ClusterUnavailableError, NotFoundError) as error:
            if self._ending.is_set():
                return
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
            recovered = self._topic.recover(self._settings.timeout)
            self._log.info(
                "observer.recovered", brokers=len(recovered.brokers), topics=len(recovered.topics)
            )
        else:
            recovered = self._state
        every = self._settings.full_describe_every
        first = self._probes == 0
        full = self._end_regressed or first
        self._end_regressed = False
        observed = probe_cluster(
            self._client,
            self._selection,
            recovered,
            now_ms(),
            self._settings.timeout,
            full=full,
            settings=first,
            share=ProbeRound(number=self._probes, every=every),
            commits_topic=self._commits_topic,
        )
        self._probes += 1
        observed, self._missing = with_deleted(observed, self._missing), observed.missing
        state, news = diff(recovered, observed)
        if unwritten := self._topic.publish(news, recovered.topics):
            news = tuple(change for change in news if change.key not in unwritten)
            state = without(state, recovered, unwritten)
        self._state = state
        self._commit_partitions = observed.commit_partitions
        self._log_changes(recovered, news)
        self._log_unreadable(observed, state)

    def _log_changes(self, before: ClusterState, news: Iterable[Change]) -> None:
        moved: set[Partition] = set()
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
                    moved |= partitions_with_moved_racks(before.topics.get(change.topic), change)
                case Tombstone(key=("topic", name)):
                    self._log.info("observer.topic_deleted", topic=name)
        if moved:
            self._log.info("observer.racks_changed", **_summary(ranges.by_topic(moved)))

    def _log_unreadable(self, observed: ClusterSnapshot, state: ClusterState) -> None:
        begun, ended = changes(self._unreadable, observed.unreadable)
        for topic, error in sorted(begun.items()):
            self._log.warning("observer.topic_unreadable", topic=topic, error=error)
        for topic in sorted(ended):
            self._log.info("observer.topic_readable", topic=topic)
        self._unreadable = observed.unreadable
        unseen = unseen_brokers(state)
        if new := sorted(unseen - self._unseen_brokers):
            self._log.warning("observer.racks_unknown", brokers=new)
        self._unseen_brokers = unseen
        leader_only = leader_only_brokers(state.brokers)
        if leader_only - self._leader_only_brokers:
            self._log.warning("observer.follower_fetching_off", brokers=sorted(leader_only))
        self._leader_only_brokers = leader_only

    def _sample(self) -> None:
        state = self._state or ClusterState()
        unread = self._unreadable.keys() | self._missing
        readable = [topic for topic in state.topics.values() if topic.topic not in unread]
        self._samples += 1
        share = ProbeRound(number=self._samples, every=self._settings.begin_offsets_every)
        topics_due = [topic for topic in readable if share.describes(topic.topic)]
        due = begins_due(readable, self._begins, all_due=False)
        due |= begins_due(topics_due, self._begins, all_due=True)
        led = [
            (leader, topic.topic, number)
            for topic in readable
            for number, leader in enumerate(topic.leader)
            if leader != UNKNOWN
        ]
        partitions = [(name, number) for _, name, number in sorted(led)]
        at = now_ms()
        count = self._commit_partitions
        offsets = read_offsets(
            self._client,
            partitions,
            [partition for partition in partitions if partition in due],
            self._settings.timeout,
            stable_at_high_watermark=stable_at_high_watermark(self._published_samples, readable),
            commit_partitions=count,
            commits_topic=self._commits_topic,
        )
        self._counted_brokers(*broker_counts(state, offsets.unanswered))
        self._begins = _known(state.topics, self._begins, offsets.begin)
        highs = _known(state.topics, self._highs, offsets.high)
        self._end_regressed = self._end_regressed or end_offset_regressed(self._highs, highs)
        self._highs = highs
        previous = {number: end for number, end in self._commits.items() if number < count}
        self._commits = {**previous, **offsets.commits}
        if self._commits_topic == OFFSETS_TOPIC:  # nobody else has transactions on another one
            self._held.sampled(offsets.commits, offsets.commits_high, time.monotonic())
        self._tails.sampled(
            *(
                {(state.topics[name].id, number): end for (name, number), end in ends.items()}
                for ends in (offsets.stable, offsets.high)
            )
        )
        self._log_unknown_offsets(readable, offsets)
        samples = [self._sampled(topic, at, offsets) for topic in state.topics.values()]
        now = time.monotonic()
        publish_all = (
            self._samples % self._settings.unchanged_sample_every == 0
            or now - self._all_published_at >= MOST_UNCHANGED_SECONDS
        )
        if publish_all:
            self._all_published_at = now
        self._topic.offer(
            samples if publish_all else changed_samples(self._published_samples, samples)
        )
        self._published_samples = {record.topic: record for record in samples}
        if self._ending.is_set():
            return
        self._held.read_on(self._settings.timeout)
        if self._settings.detect_control_records and not self._ending.is_set():
            # The result goes into the next sample, so that no sample waits for it.
            readable_partitions = partitions_by_id(
                (topic.id, topic.topic, topic.partitions) for topic in readable
            )
            self._tails.read_due(readable_partitions, self._begins, self._settings.timeout)

    def _sampled(self, topic: TopicRecord, at: int, offsets: Offsets) -> OffsetsRecord:
        numbers = range(topic.partitions)
        return sample(
            topic,
            at,
            [self._begins.get((topic.id, number), UNKNOWN) for number in numbers],
            [offsets.stable.get((topic.topic, number), UNKNOWN) for number in numbers],
            [offsets.high.get((topic.topic, number), UNKNOWN) for number in numbers],
            [self._tails.data_end((topic.id, number)) for number in numbers],
            [self._tails.gaps((topic.id, number)) for number in numbers],
            [self._commits[number] for number in sorted(self._commits)]
            if len(self._commits) == self._commit_partitions
            else (),
        )

    def _log_unknown_offsets(self, topics: Iterable[TopicRecord], offsets: Offsets) -> None:
        """Log partitions unread in two samples in a row: an election is over by then."""
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
        # While the cluster is unreachable a tick takes as long as its time-out; the outage was
        # logged already.
        if self._outages[event.job_id].since is None:
            suppressed = self._skips.allows(tick, time.monotonic())
            if suppressed is not None:
                reason = (
                    "late"
                    if event.code == EVENT_JOB_MISSED
                    else "the previous tick is still running"
                )
                self._log.warning(
                    "observer.tick_skipped", tick=tick, reason=reason, suppressed=suppressed
                )


def _known(
    topics: Mapping[str, TopicRecord],
    before: Mapping[tuple[str, int], int],
    read: Mapping[Partition, int],
) -> dict[tuple[str, int], int]:
    """Offsets known after a read, by topic id and partition, of the topics that exist."""
    ids = {topic.id for topic in topics.values()}
    now = {(topics[name].id, number): offset for (name, number), offset in read.items()}
    return {
        **{partition: offset for partition, offset in before.items() if partition[0] in ids},
        **now,
    }


def _summary(by_topic: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Fields of a log line about any number of topics: counts, and the first few by name."""
    return {
        "topics": len(by_topic),
        "partitions": sum(map(len, by_topic.values())),
        "examples": {name: ranges.format(by_topic[name]) for name in sorted(by_topic)[:EXAMPLES]},
    }
