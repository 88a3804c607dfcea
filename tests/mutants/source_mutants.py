"""Faults of the source, each one that a maintainer could make, and the test that goes red on it.

They were chosen from the source alone, before its tests were read. `test_source_mutants.py` holds
the list to the source; its rare test applies each fault to a copy and runs the named test there.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMutant:
    """A fault: some lines of one file, and what stands there instead."""

    name: str
    file: str
    """Path from the root of the project."""
    old: str
    """Whole lines that stand in the file exactly once."""
    new: str
    """The lines with the fault."""
    harm: str
    """What goes wrong in production."""
    caught_by: str
    """Id of a test that needs no brokers and fails by an assertion."""


CONTROL = (
    SourceMutant(
        name="lost-records-wait-by-the-boot-clock",
        file="daemon/control/decision/decide.py",
        old="""\
    if lost_at is None or context.time_of(group.name).read_until < lost_at + group.longest_wait:
""",
        new="""\
    if lost_at is None or context.now < lost_at + group.longest_wait:
""",
        harm=(
            "A daemon that lost its records grants partitions before it has read who uses them: "
            "two owners."
        ),
        caught_by=(
            "tests/daemon/control/test_recreated_records.py"
            "::test_time_in_which_the_daemon_reads_nothing_does_not_end_the_wait_after_lost_records"
        ),
    ),
    SourceMutant(
        name="late-silence-prolongs-the-freeze",
        file="daemon/control/membership/liveness.py",
        old="""\
        return replace(group, silent_together=group.silent_together & suspects), []
""",
        new="""\
        return replace(group, silent_together=suspects), []
""",
        harm=(
            "A member that dies while a group is frozen keeps the group frozen after all others "
            "came back."
        ),
        caught_by=(
            "tests/daemon/control/test_frozen_groups.py"
            "::test_a_member_that_falls_silent_later_keeps_no_group_frozen_whose_others_come_back"
        ),
    ),
    SourceMutant(
        name="bar-forgotten-at-its-end",
        file="daemon/control/members/start_bars.py",
        old="""\
        if now < entry.until + entry.pause
""",
        new="""\
        if now < entry.until
""",
        harm=(
            "The end of a bar plans nothing, and a member that fails again is barred no longer "
            "than before."
        ),
        caught_by=(
            "tests/daemon/control/test_grants.py"
            "::test_the_pause_of_a_member_that_fails_again_doubles"
        ),
    ),
    SourceMutant(
        name="ended-lag-comes-back-unread",
        file="daemon/control/group_records.py",
        old="""\
            group.unread.pop(str(topic), None)
            lags = {name: lag for name, lag in group.lags.items() if name != topic}
""",
        new="""\
            lags = {name: lag for name, lag in group.lags.items() if name != topic}
""",
        harm=(
            "A topic that a group reads no more comes back with its unread lag, and is planned for."
        ),
        caught_by=(
            "tests/daemon/control/test_unread_lag.py"
            "::test_the_end_of_a_topics_lag_ends_what_is_unread_too"
        ),
    ),
    SourceMutant(
        name="former-question-begins-the-term",
        file="daemon/service/daemon.py",
        old="""\
            case Recovered() if event.asked_at < self._took_over_at:
""",
        new="""\
            case Recovered() if False:
""",
        harm="A daemon leads by what it had read before another one published, and leads twice.",
        caught_by=(
            "tests/daemon/service/test_daemon.py"
            "::test_an_answer_to_a_former_terms_question_begins_no_term"
        ),
    ),
    SourceMutant(
        name="order-in-force-before-its-audit",
        file="daemon/levers/acting.py",
        old="""\
    write(settings.client(), audited, timeout=timeout)
    messages = [
        message for it in written for message in outgoing(topics, "control", it, partitions=1)
    ]
    write(settings.client(), messages, timeout=timeout)
""",
        new="""\
    messages = [
        message for it in written for message in outgoing(topics, "control", it, partitions=1)
    ]
    write(settings.client(), messages, timeout=timeout)
    write(settings.client(), audited, timeout=timeout)
""",
        harm=(
            "An order whose second write fails is in force, and the audit trail knows nothing of "
            "it."
        ),
        caught_by=(
            "tests/daemon/levers/test_written_orders.py"
            "::test_an_order_is_audited_before_it_is_in_force"
        ),
    ),
    SourceMutant(
        name="rollback-finds-an-order-for-its-plan",
        file="daemon/decisions/reading.py",
        old="""\
        if name in (entry.id, entry.plan_id) and (name == entry.id or "target" in entry.body)
""",
        new="""\
        if name in (entry.id, entry.plan_id)
""",
        harm=(
            "The second rollback to a plan finds the first one's order, which has no assignment, "
            "and fails."
        ),
        caught_by=(
            "tests/daemon/decisions/test_reading.py"
            "::test_the_name_of_a_plan_means_its_decision_and_no_order_to_go_back_to_it"
        ),
    ),
    SourceMutant(
        name="facts-share-unread-samples",
        file="daemon/control/state/control_facts.py",
        old="""\
        unread=dict(group.unread),
""",
        new="""\
        unread=group.unread,
""",
        harm="A scrape goes through samples that the control replaces meanwhile, and fails.",
        caught_by=(
            "tests/daemon/control/state/test_control_facts.py"
            "::test_no_step_changes_facts_that_were_taken"
        ),
    ),
    SourceMutant(
        name="layouts-change-under-their-readers",
        file="daemon/control/controller.py",
        old="""\
                    state = replace(state, topics=dict(layouts))
""",
        new="""\
                    pass
""",
        harm="The leader proxy misses the layout of a topic that is replaced, and leaves a group.",
        caught_by=(
            "tests/daemon/control/state/test_control_facts.py"
            "::test_no_step_changes_facts_that_were_taken"
        ),
    ),
)
"""Of the control, the levers and the decisions."""

PIPELINE = (
    SourceMutant(
        name="commit-at-the-end-is-out-of-range",
        file="streaming/rules/partition_lag.py",
        old="""\
        out_of_range = ~uncommitted & (log_end != UNKNOWN) & (committed > log_end)
""",
        new="""\
        out_of_range = ~uncommitted & (log_end != UNKNOWN) & (committed >= log_end)
""",
        harm=(
            "Beside one commit beyond the log, each group that has caught up is a whole log behind."
        ),
        caught_by=(
            "tests/streaming/rules/test_rules.py"
            "::test_a_commit_at_the_end_of_the_log_is_in_range_beside_one_that_lies_beyond"
        ),
    ),
    SourceMutant(
        name="commits-ordered-by-their-clock",
        file="streaming/topic/commit_table.py",
        old="""\
        order = np.lexsort((news.position, news.code))
""",
        new="""\
        order = np.lexsort((news.at, news.code))
""",
        harm=(
            "After a coordinator's clock was set back, an older commit replaces the newer one "
            "for good."
        ),
        caught_by=(
            "tests/streaming/topic/test_update.py::test_the_log_orders_commits_not_their_clocks"
        ),
    ),
    SourceMutant(
        name="recreated-topic-forgets-tombstones",
        file="streaming/topic/recreation.py",
        old="""\
        planned_readers=planned,
        last_tombstones=state.last_tombstones,
""",
        new="""\
        planned_readers=planned,
""",
        harm="A replay brings a deleted commit back once the layout of its topic was read.",
        caught_by=(
            "tests/streaming/topic/test_replays.py"
            "::test_a_retried_commit_does_not_come_back_from_a_tombstone_that_its_topics_layout_follows"
        ),
    ),
    SourceMutant(
        name="classic-members-outlive-their-protocol",
        file="streaming/group/ownership.py",
        old="""\
    return replace(state, consumer_members=members, classic_members=())
""",
        new="""\
    return replace(state, consumer_members=members)
""",
        harm=(
            "A group that went over to KIP-848 keeps its last classic members as owners: its lag "
            "and skew are theirs."
        ),
        caught_by=(
            "tests/streaming/group/test_update.py"
            "::test_a_group_that_changes_to_the_consumer_protocol_and_back_has_the_owners_of_the_last"
            "[after compaction]"
        ),
    ),
    SourceMutant(
        name="bucket-waits-for-a-clock-set-back",
        file="streaming/bucket/samples.py",
        old="""\
        state["sampled_at"][group] = np.where(set_back, at, np.maximum(newest, at))
""",
        new="""\
        state["sampled_at"][group] = np.maximum(newest, at)
""",
        harm=(
            "After a clock was set back, no skew is a trigger until the clock is where it was "
            "before."
        ),
        caught_by=(
            "tests/streaming/bucket/test_columns.py"
            "::test_samples_after_a_clock_that_was_set_back_raise_a_trigger_as_before"
        ),
    ),
    SourceMutant(
        name="the-largest-change-hides-the-latest",
        file="streaming/rules/rate_changes.py",
        old="""\
    unsearched = [(point, np.flatnonzero(changed == point)) for point in _points(changed)]
""",
        new="""\
    unsearched: list[tuple[int, Int64]] = []
""",
        harm=(
            "A partition that was hot for a while counts as hot for half a minute after that: the "
            "plan for the next hot ones spares its owner, and is undone by another."
        ),
        caught_by=(
            "tests/streaming/rules/test_rate_changes.py"
            "::test_a_step_after_another_one_is_believed_within_four_seconds[levels0-40]"
        ),
    ),
    SourceMutant(
        name="pause-longer-than-skew-has-to-last",
        file="streaming/rules/cadence.py",
        old="""\
    longest = min(rule.longest_ms, rule.skew_duration_ms + rule.shortest_ms - length_ms)
""",
        new="""\
    longest = min(rule.longest_ms, rule.skew_duration_ms + 2 * rule.shortest_ms)
""",
        harm="A trigger comes later than with a fixed interval, if a pause hid that skew began.",
        caught_by=("tests/streaming/rules/test_cadence.py::test_a_long_batch_shortens_the_pause"),
    ),
    SourceMutant(
        name="replayed-member-record-counts-as-new",
        file="streaming/decoding/ingest.py",
        old="""\
        raw = replace(records.raw(row), until=until)
""",
        new="""\
        raw = records.raw(row)
""",
        harm="A replayed record about members replaces newer ones, and its dead letter never ends.",
        caught_by=(
            "tests/streaming/topic/test_replays.py::test_a_groups_record_counts_after_an_upgrade"
        ),
    ),
    SourceMutant(
        name="one-clock-is-believed",
        file="streaming/rules/event_time.py",
        old="""\
    *_, second, _ = UNKNOWN, UNKNOWN, *sorted(set(times))
""",
        new="""\
    *_, second = UNKNOWN, UNKNOWN, *sorted(set(times))
""",
        harm="One record with a wrong clock ends all commits to a topic that is out of sight.",
        caught_by=(
            "tests/streaming/topic/test_update.py"
            "::test_one_record_with_a_wrong_clock_ends_no_commit_to_a_topic_out_of_sight[commit]"
        ),
    ),
    SourceMutant(
        name="a-wrong-clock-keeps-its-checkpoint",
        file="streaming/spark/checkpoint.py",
        old="""\
    if isinstance(begun, int) and life.since <= begun <= life.at:
""",
        new="""\
    if isinstance(begun, int) and life.since <= begun:
""",
        harm="A checkpoint made while the clock was a year ahead is never too old for a year.",
        caught_by=(
            "tests/streaming/spark/test_checkpoint.py"
            "::test_a_clock_that_is_wrong_at_each_start_costs_one_checkpoint_and_not_each"
        ),
    ),
    SourceMutant(
        name="a-short-absence-costs-the-checkpoint",
        file="streaming/spark/checkpoint.py",
        old="""\
                if _had_read_all(files, name, done, life):
""",
        new="""\
                if False:
""",
        harm="A pipeline that was away for longer than a segment lasts builds its state anew.",
        caught_by=(
            "tests/streaming/spark/test_checkpoint.py"
            "::test_a_checkpoint_that_had_read_all_there_was_lately_has_nothing_old_unread[batches0-True]"
        ),
    ),
    SourceMutant(
        name="an-interrupted-rebuild-begins-anew",
        file="streaming/spark/checkpoint.py",
        old="""\
    if isinstance(begun, int) and life.since <= begun <= life.at:
""",
        new="""\
    if False:
""",
        harm="Each death while a state is rebuilt from old records begins the rebuild anew.",
        caught_by=(
            "tests/streaming/spark/test_checkpoint.py"
            "::test_a_clock_that_is_wrong_at_each_start_costs_one_checkpoint_and_not_each"
        ),
    ),
    SourceMutant(
        name="an-outage-is-taken-for-damage",
        file="streaming/spark/failure_diagnosis.py",
        old="""\
        FailureCause.MACHINE,
        (
            "the checkpoint's file system, or another of Spark's processes, does not answer or"
""",
        new="""\
        FailureCause.CHECKPOINT,
        (
            "the checkpoint's file system, or another of Spark's processes, does not answer or"
""",
        harm="A store of objects that does not answer for a minute costs the checkpoint.",
        caught_by=(
            "tests/streaming/spark/test_failure_diagnosis.py"
            "::test_a_death_that_was_provoked_has_its_cause"
            "[a store of objects that ends its connections while a state is loaded]"
        ),
    ),
)
"""Of the rules of the pipeline."""

OBSERVER = (
    SourceMutant(
        name="missing-right-repeats-the-commit",
        file="daemon/kafka/publisher.py",
        old="""\
        if lacks_right and what == "initialise":
""",
        new="""\
        if lacks_right:
""",
        harm=(
            "A right that was missing for a moment has the planner repeat a commit on a dead "
            "client, with the lead kept, until a restart."
        ),
        caught_by=(
            "tests/daemon/kafka/test_refused_transactions.py"
            "::test_an_error_that_is_fatal_to_the_client_ends_the_term"
        ),
    ),
    SourceMutant(
        name="unread-log-stays-first",
        file="daemon/observer/last_records.py",
        old="""\
        waiting = replace(self, still=self.still_needed - MAX_STILL_SAMPLES)
""",
        new="""\
        waiting = self
""",
        harm="A topic that may not be read keeps the ends of all other logs from being found.",
        caught_by=(
            "tests/daemon/observer/test_last_records.py"
            "::test_partitions_that_cannot_be_read_hold_up_no_others[64]"
        ),
    ),
    SourceMutant(
        name="lost-sample-never-forgotten",
        file="daemon/observer/metadata_topic.py",
        old="""\
        self._lost_sample = None
        try:
""",
        new="""\
        try:
""",
        harm=(
            "After one sample was lost, every tick counts as an outage, and the observer backs "
            "off for good."
        ),
        caught_by=(
            "tests/daemon/observer/test_metadata_topic.py"
            "::test_a_lost_sample_makes_one_tick_fail_and_no_later_one"
        ),
    ),
    SourceMutant(
        name="refusal-kept-over-transactions",
        file="daemon/kafka/publisher.py",
        old="""\
        begun = time.monotonic()
        self._refusal = None
""",
        new="""\
        begun = time.monotonic()
""",
        harm=(
            "A transaction that ends by an outage is blamed on a record refused long ago: a "
            "sound group is put back."
        ),
        caught_by=(
            "tests/daemon/kafka/test_refused_transactions.py"
            "::test_a_record_is_blamed_for_the_end_of_its_own_transaction_alone"
        ),
    ),
    SourceMutant(
        name="regressed-end-overwritten",
        file="daemon/observer/observer.py",
        old="""\
        self._end_regressed = self._end_regressed or end_offset_regressed(self._highs, highs)
""",
        new="""\
        self._end_regressed = end_offset_regressed(self._highs, highs)
""",
        harm="A recreated topic is noticed late: the next sample clears what the last one saw.",
        caught_by=(
            "tests/daemon/observer/test_ends_that_go_back.py"
            "::test_an_end_that_went_back_is_remembered_until_the_whole_layout_was_asked_for"
        ),
    ),
    SourceMutant(
        name="data-end-beyond-the-sample",
        file="daemon/observer/last_records.py",
        old="""\
                data_end=min(last + 1, self.end),
""",
        new="""\
                data_end=last + 1,
""",
        harm=(
            "A sample says that data reaches beyond the log's end, and groups that keep pace "
            "seem to be behind."
        ),
        caught_by=(
            "tests/daemon/observer/test_last_records.py"
            "::test_records_that_came_after_the_sample_are_not_told_with_its_end"
        ),
    ),
    SourceMutant(
        name="held-records-read-again",
        file="daemon/observer/held_commits.py",
        old="""\
                held[number].read_to = message.offset() + 1
""",
        new="""\
                held[number].read_to = message.offset()
""",
        harm=(
            "Behind an open transaction the last record is handed on with every sample, until no "
            "room is left for others."
        ),
        caught_by=(
            "tests/daemon/observer/test_held_commits.py"
            "::test_what_lies_behind_a_stable_end_is_read_once"
        ),
    ),
    SourceMutant(
        name="callback-waits-for-another-record",
        file="daemon/kafka/topic_follower.py",
        old="""\
            for (topic, partition), position in self._positions.items():
                progress.reached(topic, partition, position)
            self._awaited.append((progress, call))
""",
        new="""\
            self._awaited.append((progress, call))
""",
        harm=(
            "On a quiet cluster whoever waits for what was read already waits until somebody "
            "writes."
        ),
        caught_by=(
            "tests/daemon/kafka/test_topic_follower.py"
            "::test_what_was_handled_before_it_was_asked_for_is_called_back_without_another_record"
        ),
    ),
)
"""Of the observer and the access to Kafka."""

CLIENTS = (
    SourceMutant(
        name="plan-while-connecting-is-lost",
        file="daemon/proxy/membership.py",
        old="""\
    if not state.settled or is_news(answered):
""",
        new="""\
    if not state.settled:
""",
        harm=(
            "A plan that is made while the proxy connects anew is not dictated before the next one."
        ),
        caught_by=(
            "tests/daemon/proxy/test_proxy_machine.py"
            "::test_a_plan_that_comes_while_the_connection_is_opened_again_is_dictated[connecting-0]"
        ),
    ),
    SourceMutant(
        name="handed-back-batch-keeps-its-last-offset",
        file="assignors/clients/confluent/committing/offsets.py",
        old="""\
        for message in reversed(messages):
            pair = (message.topic(), message.partition())
            if message.error() is None and pair in self.grants:
""",
        new="""\
        for message in messages:
            pair = (message.topic(), message.partition())
            if message.error() is None and pair in self.grants:
""",
        harm=(
            "A cancelled `consume` commits all but the last of its records, which nobody has "
            "processed: they are lost."
        ),
        caught_by=(
            "tests/assignors/clients/confluent/test_commit_tracker.py"
            "::test_a_batch_that_is_handed_back_is_committed_by_no_commit"
        ),
    ),
    SourceMutant(
        name="former-life-renews-the-lease",
        file="assignors/clients/confluent/following/follower.py",
        old="""\
        if incarnation == self._machine.incarnation:
            self._handle(ev.AnnouncementAcked(sent_at))
""",
        new="""\
        self._handle(ev.AnnouncementAcked(sent_at))
""",
        harm=(
            "A late acknowledgement lets the next life count on a lease that the planner knows "
            "nothing of."
        ),
        caught_by=(
            "tests/assignors/clients/confluent/test_follower.py"
            "::test_an_acknowledgement_of_a_life_that_was_lost_renews_no_lease_of_the_next"
        ),
    ),
    SourceMutant(
        name="busy-log-proves-nothing",
        file="assignors/clients/confluent/reading/read_proof.py",
        old="""\
        if stable_offset < read_to:
""",
        new="""\
        if stable_offset < self.read_to:
""",
        harm=(
            "While records come fast, no answer confirms a read: leases end, and all members "
            "lose their partitions."
        ),
        caught_by=(
            "tests/assignors/clients/confluent/test_read_proof.py"
            "::test_a_reader_that_overtakes_the_answer_is_confirmed_by_it"
        ),
    ),
    SourceMutant(
        name="progress-does-not-renew-patience",
        file="assignors/handover/holding.py",
        old="""\
            acked_epoch=max(self.acked_epoch, record.acked_epoch),
            progress_at=readable,
""",
        new="""\
            acked_epoch=max(self.acked_epoch, record.acked_epoch),
""",
        harm="A member that gives up its partitions one after another is evicted though it works.",
        caught_by=(
            "tests/daemon/control/test_silence.py"
            "::test_an_acknowledgement_that_makes_progress_begins_the_patience_again"
        ),
    ),
    SourceMutant(
        name="proxy-overlooks-a-recreated-topic",
        file="daemon/proxy/membership.py",
        old="""\
        and (layout.id, layout.partitions) != (assigned.id, assigned.partitions)
""",
        new="""\
        and layout.partitions != assigned.partitions
""",
        harm="Members that the proxy leads go on with partitions of a topic that was deleted.",
        caught_by=(
            "tests/daemon/proxy/test_proxy_machine.py"
            "::test_a_topic_that_was_recreated_asks_for_a_rebalance_with_the_next_heartbeat"
        ),
    ),
    SourceMutant(
        name="former-leader-asks-as-leader",
        file="assignors/clients/classic/published_assignor.py",
        old="""\
        self._leads = False
        self._subscribed = frozenset(topics)
""",
        new="""\
        self._subscribed = frozenset(topics)
""",
        harm=(
            "Each member that ever led asks for a rebalance at once, by an assignment that is over."
        ),
        caught_by=(
            "tests/assignors/clients/classic/test_published_assignor.py"
            "::test_a_member_that_leads_no_more_asks_as_late_as_the_others"
        ),
    ),
)
"""Of the clients, the hand-over and the leader proxy."""

RECORDS = (
    SourceMutant(
        name="lists-of-two-lengths-are-read",
        file="assignors/protocol/declared/json_form.py",
        old="""\
            if len({len(items) for items in get(part) if items is not None}) > 1:
""",
        new="""\
            if len({len(items) for items in get(part) if items is not None}) > 2:
""",
        harm="A record whose lists are of other partitions is read, and every plan with it fails.",
        caught_by=(
            "tests/assignors/protocol/test_records.py"
            "::test_lists_of_one_topic_must_be_indexed_by_the_same_partitions"
        ),
    ),
    SourceMutant(
        name="index-behind-the-last-is-read",
        file="assignors/protocol/declared/json_form.py",
        old="""\
            if numbers and max(numbers) >= len(getattr(part, indexed) or ()):
""",
        new="""\
            if numbers and max(numbers) > len(getattr(part, indexed) or ()):
""",
        harm="An owner that is no member is read, and whoever looks it up fails.",
        caught_by=(
            "tests/assignors/protocol/test_records.py::test_an_owner_that_is_no_member_is_refused"
        ),
    ),
    SourceMutant(
        name="bounds-of-keys-are-forgotten",
        file="assignors/protocol/declared/declaration.py",
        old="""\
        for name, bounded in self._bounded:
""",
        new="""\
        for name, bounded in ():
""",
        harm="A member with a name of a megabyte is taken in, and is in every log line.",
        caught_by=(
            "tests/assignors/protocol/test_records.py"
            "::test_a_part_of_a_key_beyond_its_bounds_is_refused"
        ),
    ),
    SourceMutant(
        name="value-of-another-key-is-read",
        file="assignors/protocol/declared/declaration.py",
        old="""\
        if self._record_type.KEY_IN_VALUE and record.key != key:
""",
        new="""\
        if False:
""",
        harm="A trigger of one group is taken for another's.",
        caught_by=(
            "tests/assignors/protocol/test_records.py"
            "::test_a_trigger_must_name_the_kind_and_group_of_its_key"
        ),
    ),
    SourceMutant(
        name="exponents-as-the-library-writes-them",
        file="assignors/protocol/declared/numbers.py",
        old="""\
    return msgspec.Raw(repr(float(number)).encode())
""",
        new="""\
    return number
""",
        harm="The bytes of a record change, and digests of the same plan differ between releases.",
        caught_by=("tests/assignors/protocol/test_records.py::test_numbers_are_written_as_ever"),
    ),
    SourceMutant(
        name="share-without-a-limit",
        file="assignors/protocol/declared/fields.py",
        old="""\
        limit -= len(share[topic])
""",
        new="""\
        limit -= 0
""",
        harm="A few foreign bytes name millions of partitions and fill the memory.",
        caught_by=(
            "tests/assignors/protocol/test_records.py"
            "::test_a_share_names_no_more_partitions_than_its_topics_may_together"
        ),
    ),
)

SHOWN = (
    SourceMutant(
        name="standby-shows-the-pipeline-of-its-term",
        file="daemon/service/availability/pipeline_host.py",
        old="""\
        if not leading:
            self._drop_remote()
""",
        new="""\
        if not leading:
            self._remote = None
""",
        harm="A daemon that stands by pages for ever for a pipeline that it watched once.",
        caught_by=(
            "tests/daemon/service/availability/test_pipeline_host.py"
            "::test_a_daemon_that_leads_no_more_shows_nothing_of_a_pipeline_elsewhere"
        ),
    ),
    SourceMutant(
        name="old-facts-are-good-enough",
        file="daemon/service/availability/latest_facts.py",
        old="""\
            if patience and self._taken_at < at - FRESH_SECONDS:
""",
        new="""\
            if patience and self._taken_at < at - WANTED_SECONDS:
""",
        harm="A probe tells of a freeze that ended seconds ago.",
        caught_by=(
            "tests/daemon/service/availability/test_latest_facts.py"
            "::test_who_has_patience_gets_newer_facts_than_old_ones"
        ),
    ),
    SourceMutant(
        name="a-page-asks-in-vain",
        file="daemon/service/availability/latest_facts.py",
        old="""\
            self._wanted_until = at + WANTED_SECONDS
""",
        new="""\
            self._wanted_until = at
""",
        harm="An open page shows the status of its last question.",
        caught_by=(
            "tests/daemon/service/availability/test_latest_facts.py"
            "::test_the_first_facts_are_taken_unasked_and_others_while_somebody_asks"
        ),
    ),
    SourceMutant(
        name="no-members-without-a-plan",
        file="daemon/gauges/group_families.py",
        old="""\
        "members": figures.members if planned or lag.members else None,
""",
        new="""\
        "members": figures.members if planned else None,
""",
        harm="Groups that subscribe without a plan have no gauge of members, though the page has.",
        caught_by=(
            "tests/daemon/shown_groups/test_shown_group.py"
            "::test_metrics_have_the_figures_of_the_documents"
        ),
    ),
    SourceMutant(
        name="lag-of-a-former-topic",
        file="daemon/shown_groups/measured_group.py",
        old="""\
    lags = current_lags(newest, layout.topics, layout.deleted_topics)
""",
        new="""\
    lags = dict(newest)
""",
        harm="Lag of a topic that was deleted and made anew counts on the page and in alerts.",
        caught_by=(
            "tests/daemon/control/test_snapshot.py"
            "::test_the_lag_of_a_recreated_topic_counts_in_no_skew"
        ),
    ),
    SourceMutant(
        name="planned-members-that-nobody-knows",
        file="daemon/shown_groups/group_documents.py",
        old="""\
        *(document(name, racks.get(name)) for name in sorted((owned.keys() | planned) - named)),
""",
        new="""\
        *(document(name, racks.get(name)) for name in sorted(owned.keys() - named)),
""",
        harm="A member that is gone has no row, though the plan gives it partitions.",
        caught_by=(
            "tests/daemon/inspection/test_tables.py"
            "::test_a_published_plan_is_shown_beside_what_the_members_own"
        ),
    ),
    SourceMutant(
        name="probes-count-as-requests",
        file="daemon/api/access/guards.py",
        old="""\
        if scope["path"] in PROBES:
""",
        new="""\
        if scope["path"] in PROBES and self._serving < MOST_REQUESTS:
""",
        harm="A supervisor restarts a daemon that answers many requests.",
        caught_by=(
            "tests/daemon/api/test_http_server.py"
            "::test_requests_beyond_the_most_are_refused_and_probes_are_not"
        ),
    ),
)

MUTANTS = (*CONTROL, *PIPELINE, *OBSERVER, *CLIENTS, *RECORDS, *SHOWN)
