"""The vocabulary of the log: every event of the daemon, with its level, fields and meaning.

`docs/log-events.md` shows this table. A test holds the vocabulary, that page and the log calls in
the code to each other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventSpec:
    """One event that the daemon logs."""

    name: str
    """Two words of lower case letters and underscores, joined by a dot."""
    level: str
    """The level at which every call logs the event."""
    fields: tuple[str, ...]
    """Names of the fields that a line may have; a line need not have all of them."""
    meaning: str
    """Whole sentences for an operator: what happened, and what happens next."""


def _event(name: str, level: str, fields: str, meaning: str) -> EventSpec:
    """Make a row of the vocabulary; `fields` are names separated by blanks."""
    return EventSpec(name, level, tuple(fields.split()), meaning)


VOCABULARY: tuple[EventSpec, ...] = (
    # The daemon.
    _event(
        "daemon.started",
        "info",
        "bootstrap prefix version",
        "The daemon has started and reads its topics.",
    ),
    _event(
        "daemon.leading",
        "info",
        "planner_epoch groups",
        "The daemon has read all records and plans from now on.",
    ),
    _event(
        "daemon.standing_by",
        "info",
        "leader planner_epoch takeover",
        "Another daemon leads, or may do so: this one reads along, and takes over when the group "
        "of daemons gives it the lead, at the latest `takeover` seconds after the leader died.",
    ),
    _event(
        "daemon.taking_over",
        "info",
        "leader state silent",
        "The daemon becomes the planner: the group of daemons gave it the lead, since there was no "
        "leader, it stopped, or it gave no sign of life. The last canary was of `leader`.",
    ),
    _event(
        "daemon.deposed",
        "warning",
        "reason planner_epoch",
        "The daemon is the planner no more: it has ended its observer, and stands by. A pipeline "
        "that is its child goes on.",
    ),
    _event(
        "daemon.reads_nothing",
        "error",
        "partition seconds",
        "The daemon led and did not read what it wrote into this partition of the topic of members "
        "for `seconds` seconds: it stands by, so that another daemon leads, until it can read.",
    ),
    _event(
        "daemon.lead_given_up",
        "warning",
        "reason",
        "The daemon leaves the group of daemons, so that another one is given the lead, or since "
        "nobody has it. It joins again as soon as it can read levelwind's topics.",
    ),
    _event(
        "daemon.group_unanswered",
        "warning",
        "group error",
        "The brokers did not answer this daemon as a member of the group of daemons. It goes on "
        "trying; if it leads, it leads on until another daemon has fenced it.",
    ),
    _event(
        "daemon.membership_fenced",
        "warning",
        "group",
        "The brokers took this daemon's membership in the group of daemons for another process's, "
        "as they do when a coordinator dies with an answer to it. It joins anew; a daemon that "
        "meets this three times in a minute shares its state_dir with another one, and ends.",
    ),
    _event(
        "daemon.left_silently",
        "warning",
        "group error",
        "The daemon ended and could not tell the group of daemons so: another one is given the "
        "lead when its session ends, after timers.takeover seconds.",
    ),
    _event(
        "daemon.stopped",
        "info",
        "reason",
        "The daemon has shut down in good order.",
    ),
    _event(
        "metrics.listening",
        "info",
        "address",
        "The metrics endpoint for Prometheus is open at this address.",
    ),
    _event(
        "http.listening",
        "info",
        "url levers",
        "The HTTP server is open at this address: probes, metrics, the API and the page. `levers` "
        "says whether tokens open the levers.",
    ),
    _event(
        "http.unencrypted",
        "warning",
        "address",
        "The HTTP server answers other machines without TLS, so that tokens can be read on the "
        "way: set http.tls_file, or let a proxy encrypt.",
    ),
    _event(
        "http.token_refused",
        "warning",
        "client suppressed",
        "A request for a lever came without a token, or with one that is not in the file; "
        "`suppressed` more of this client since the last line.",
    ),
    _event(
        "http.tokens_unreadable",
        "error",
        "error",
        "The file of tokens has changed and cannot be used: no token is accepted until it can.",
    ),
    _event(
        "http.certificate_renewed",
        "info",
        "file",
        "The certificate's file has changed: new connections get what it holds now.",
    ),
    _event(
        "http.certificate_refused",
        "error",
        "error",
        "The certificate's file has changed and cannot be used: the server goes on with the one "
        "that it has.",
    ),
    _event(
        "daemon.failed",
        "error",
        "error",
        "The daemon cannot go on and shuts down; the text says what to do.",
    ),
    # Decisions of the control.
    _event(
        "plan.published",
        "info",
        "group mode group_epoch plan_id strategy cause members moved moves before after waiting "
        "lag_at metadata_at certificate",
        "A plan was decided and published, with its cause, its moves, the scores before and after, "
        "and the `waiting` in record-seconds that it saves and that its hand-over costs.",
    ),
    _event(
        "plan.confirmed",
        "info",
        "group plan_id cause before after waiting at",
        "Racks changed, and the current plan is still the best; it stays and the trigger is "
        "cleared.",
    ),
    _event(
        "plan.suppressed",
        "info",
        "group cause reason moved before after waiting retry_in",
        "A trigger is active and got no plan: cooldown, too little gain, less waiting saved than a "
        "hand-over costs, or over budget. It is considered again after `retry_in` seconds.",
    ),
    _event(
        "plan.ended",
        "info",
        "group group_epoch reason",
        "The plan of a watched group was deleted, for this reason: the group is gone, or the "
        "settings have it in another mode. Who applied it gets no further one.",
    ),
    _event(
        "plan.evaluated",
        "info",
        "group expected achieved met cooldown",
        "The cooldown of a plan is over. `expected` and `achieved` are seconds by which the "
        "longest time to drain exceeds the best that a plan could reach; `met` says whether they "
        "fell by at least half of the expected gain.",
    ),
    _event(
        "plan.proposed",
        "info",
        "group plan_id cause strategy moved before after waiting",
        "A plan waits for an operator's approval, since the group's settings ask for it: "
        "`levelwind approve` publishes it. It goes stale when members or topics change.",
    ),
    _event(
        "request.refused",
        "warning",
        "group action plan_id by reason",
        "An operator's request cannot be followed, for this reason, and is taken back; nothing "
        "was changed.",
    ),
    _event(
        "lever.set",
        "info",
        "group lever subject setting by reason",
        "An operator has set a lever, which wins over the configuration file until it is "
        "released. `group` is * where it holds for all.",
    ),
    _event(
        "lever.released",
        "info",
        "group lever subject",
        "An operator has released a lever: the configuration file holds again.",
    ),
    _event(
        "lever.unknown",
        "warning",
        "group strategy",
        "A lever names a strategy that this release does not have: the configuration file's is "
        "used. Release the lever, or run the release that it was set with.",
    ),
    _event(
        "config.overridden",
        "warning",
        "levers",
        "The daemon leads, and these levers of operators win over its configuration file until "
        "they are released.",
    ),
    _event(
        "config.reloaded",
        "info",
        "changed",
        "SIGHUP: the settings were read again, and these have changed. Groups that are planned "
        "otherwise get a plan.",
    ),
    _event(
        "config.restart_needed",
        "warning",
        "settings",
        "These settings have changed, too, and hold only after a restart: the daemon goes on with "
        "their old values.",
    ),
    _event(
        "config.refused",
        "error",
        "error",
        "SIGHUP: the settings cannot be read again, for this reason. Nothing has changed.",
    ),
    _event(
        "decision.unrecorded",
        "error",
        "group reason",
        "A decision could not be written to the audit trail, for this reason. It stands all the "
        "same.",
    ),
    _event(
        "trigger.raised",
        "info",
        "group kind at since evidence",
        "The pipeline found a cause to plan the group.",
    ),
    _event(
        "trigger.cleared",
        "info",
        "group kind",
        "The cause no longer holds.",
    ),
    _event(
        "member.joined",
        "info",
        "group instance incarnation rack topics pattern",
        "A member announced itself; a plan follows.",
    ),
    _event(
        "member.left",
        "info",
        "group instance incarnation",
        "A member left in good order; a plan follows.",
    ),
    _event(
        "handover.advanced",
        "info",
        "group group_epoch granted revoking pending",
        "Partitions were granted or revoked; the counts say what is still under way.",
    ),
    _event(
        "handover.settled",
        "info",
        "group group_epoch seconds",
        "The hand-over is complete: every partition is where the plan wants it.",
    ),
    _event(
        "member.evicted",
        "warning",
        "group instance incarnation reason",
        "The planner took everything from a member that is silent, stuck or replaced; a plan "
        "follows, at the latest when its partitions are free, unless it is back before.",
    ),
    _event(
        "member.nacked",
        "warning",
        "group instance incarnation code epoch",
        "A member could not apply a record and keeps its old assignment, or could not start a "
        "partition.",
    ),
    _event(
        "member.refused",
        "warning",
        "group instance incarnation reason",
        "The planner cannot serve a member, which gets no partitions: its timers ask for longer "
        "waits than `timers.longest_grant`.",
    ),
    _event(
        "member.claimed",
        "warning",
        "group instance incarnation partitions",
        "A member announces partitions that no record gives to it. It is told to give them up, and "
        "no other member is granted them before it has, or is evicted and waited out.",
    ),
    _event(
        "grant.taken_back",
        "warning",
        "group instance incarnation partitions reason",
        "A member does not start partitions that it was granted. They are revoked, and for a while "
        "the member is planned without their topics if another member reads them.",
    ),
    _event(
        "member.holds_on",
        "error",
        "group instance incarnation partitions seconds",
        "An evicted member still announces its partitions after `seconds`: it can write and does "
        "not read its eviction. They stay its own; end its process.",
    ),
    _event(
        "planner.epoch_raised",
        "warning",
        "planner_epoch group instance",
        "A member has followed a planner of a higher epoch, whose records are lost; this planner "
        "goes on with an epoch above it.",
    ),
    _event(
        "plan.waiting_for_topics",
        "warning",
        "group topics",
        "A plan waits for topics that the observer has not described yet; no partition is revoked "
        "meanwhile.",
    ),
    _event(
        "record.incomplete",
        "error",
        "key",
        "A record of the planner was cut into shards, and not all of them are in the topic. It "
        "counts as lost: the group gets a new plan, a member without a record is evicted.",
    ),
    _event(
        "lag.stale",
        "warning",
        "group topics age",
        "A plan was made as if these topics had no lag, since their samples are older than "
        "control.lag_max_age: the oldest is `age` seconds old. Later plans do not say it again.",
    ),
    _event(
        "lag.unreadable",
        "warning",
        "group topic reason",
        "A record of levelwind.lag breaks the protocol, and is left out: the one before it stays, "
        "for the daemon that leads; one that takes over has none until the next. "
        "Most records are read only when the lag is needed, so that this was found then.",
    ),
    _event(
        "group.frozen",
        "warning",
        "group silent members for_seconds",
        "Most members missed heartbeats at the same time; rebalancing is paused for `for_seconds`.",
    ),
    _event(
        "planning.frozen",
        "warning",
        "reason detail",
        "Plans move nothing that works until `planning.thawed`, since what they would rest on "
        "cannot be trusted: `metadata` (the layout of the cluster is old), `clock` (the wall "
        "clock jumped), `brokers` (most do not answer), `rejects` (the pipeline cannot read most "
        "of its input) or `lag` (all lag is old). Partitions without a reader are still given to "
        "one, and hand-overs under way go on.",
    ),
    _event(
        "planning.thawed",
        "info",
        "reason seconds still",
        "A reason to freeze planning has ended after `seconds` seconds. `still` names those that "
        "go on; without any, what has waited is planned now.",
    ),
    _event(
        "group.records_lost",
        "warning",
        "group instance incarnation for_seconds",
        "A member followed a planner whose records are lost: levelwind's topics were deleted. The "
        "group gets its first plan after `for_seconds`, when all its members have announced what "
        "they use.",
    ),
    _event(
        "partition.unsplittable",
        "warning",
        "group topic partition lag seconds horizon",
        "One partition alone needs its consumer for `seconds` (null: for ever), clearly longer "
        "than the `horizon` in which the group as a whole drains, and no plan can change that: "
        "spread its keys, or speed up its consumer.",
    ),
    _event(
        "group.overloaded",
        "warning",
        "group arrivals capacity lag members_wanted",
        "More records arrive per second than all members together can read, for 10 s; no plan can "
        "change that. `members_wanted` members of today's mean speed could. Logged once, until "
        "arrivals are clearly below the capacity again.",
    ),
    _event(
        "planning.delayed",
        "warning",
        "waiting seconds",
        "More plans are due than can be made at once: `waiting` groups wait for theirs, the last "
        "one for about `seconds`. Those with partitions that nobody reads come first, then those "
        "with the most records behind; heartbeats, evictions and hand-overs go on. Logged again "
        "when the delay has doubled.",
    ),
    _event(
        "planning.caught_up",
        "info",
        "plans seconds",
        "No group waits for its plan any more: `plans` were computed in `seconds`.",
    ),
    _event(
        "plan.failed",
        "error",
        "group cause retry_in error",
        "Making a plan failed, which is a bug: the trace is attached. The group keeps its "
        "assignment, and other groups are planned. It is tried again after `retry_in` seconds; an "
        "operator's request is refused instead.",
    ),
    _event(
        "group.publish_refused",
        "error",
        "group reason retry_in",
        "A record of the group cannot be published as it is, and nothing of its last step was. The "
        "group keeps its assignment and is tried again; other groups go on.",
    ),
    _event(
        "member.duplicate_instance",
        "error",
        "group instance",
        "Several processes use one instance name and replace each other; none is admitted until "
        "one is left.",
    ),
    # The observer.
    _event(
        "observer.topic_changed",
        "debug",
        "topic id partitions",
        "The observer published the changed layout of a topic.",
    ),
    _event(
        "observer.recovered",
        "info",
        "brokers topics",
        "The observer has read back what it published before this start.",
    ),
    _event(
        "observer.broker_online",
        "info",
        "broker rack",
        "A broker is online.",
    ),
    _event(
        "observer.racks_changed",
        "info",
        "topics partitions examples",
        "Replicas moved to other racks.",
    ),
    _event(
        "observer.topic_deleted",
        "info",
        "topic",
        "A topic was deleted: brokers did not know it in two probes in a row. Or the settings do "
        "not select it any more.",
    ),
    _event(
        "observer.topic_readable",
        "info",
        "topic",
        "A topic can be described again.",
    ),
    _event(
        "observer.offsets_known",
        "info",
        "topics partitions examples",
        "Offsets that could not be read are readable again.",
    ),
    _event(
        "observer.commits_released",
        "info",
        "partitions seconds",
        "The transaction that held back commits has ended, after `seconds` at most.",
    ),
    _event(
        "observer.resumed",
        "info",
        "tick seconds",
        "The cluster answers the observer again, after `seconds`.",
    ),
    _event(
        "observer.broker_offline",
        "warning",
        "broker rack",
        "A broker is offline; the observer keeps its last known rack.",
    ),
    _event(
        "observer.topic_unreadable",
        "warning",
        "topic error",
        "The observer may not describe a topic: grant the right, or exclude the topic.",
    ),
    _event(
        "observer.commits_held_back",
        "warning",
        "partitions",
        "A transaction stays open on partitions of `__consumer_offsets`. The observer reads on "
        "there, and asks the coordinators which commits have taken effect.",
    ),
    _event(
        "commits.topic_unreadable",
        "warning",
        "topic interval",
        "The daemon may not read `topic`, so it asks the coordinators what groups commit, every "
        "`interval` seconds and busy groups alone each time: lag is later by that. Grant READ on "
        "the topic, or set `commits.source` to `poll`, which says the same without this warning.",
    ),
    _event(
        "commits.polling",
        "info",
        "groups",
        "The daemon asks the coordinators for what groups commit from now on, and goes on from "
        "what it wrote before about `groups` groups.",
    ),
    _event(
        "commits.groups_refused",
        "warning",
        "groups examples",
        "The coordinators tell nothing of some groups, by the reasons in `examples`: their lag is "
        "not known. The others are asked as before.",
    ),
    _event(
        "commits.unanswered",
        "warning",
        "brokers",
        "Brokers do not answer the questions for commits, by the reasons in `brokers`: the lag of "
        "the groups that they coordinate gets old until they do.",
    ),
    _event(
        "commits.answered",
        "info",
        "brokers",
        "Brokers that did not answer the questions for commits do so again.",
    ),
    _event(
        "commits.unpolled",
        "warning",
        "error",
        "A round of questions for commits failed as a whole; the next ones try again.",
    ),
    _event(
        "commits.polled_again",
        "info",
        "seconds",
        "Rounds of questions for commits succeed again, after so many seconds.",
    ),
    _event(
        "commits.failed",
        "error",
        "error",
        "A defect of levelwind: a round of questions for commits was given up. The next one tries "
        "again.",
    ),
    _event(
        "commits.handed_over",
        "info",
        "reason",
        "Another daemon asks for commits from now on, or the next term of this one.",
    ),
    _event(
        "observer.offsets_unknown",
        "warning",
        "error topics partitions examples",
        "Offsets of some partitions cannot be read; the next samples try again.",
    ),
    _event(
        "observer.racks_unknown",
        "warning",
        "brokers",
        "Replicas are on brokers that were never online while levelwind watched; their racks are "
        "unknown.",
    ),
    _event(
        "observer.follower_fetching_off",
        "warning",
        "brokers",
        "Brokers with a rack have no `replica.selector.class`, so that consumers fetch from "
        "leaders alone: plans lower the cross-rack share in name only. Set it to "
        "`org.apache.kafka.common.replica.RackAwareReplicaSelector`.",
    ),
    _event(
        "observer.tick_skipped",
        "warning",
        "tick reason suppressed",
        "A tick was still running when the next one was due; the next one is skipped.",
    ),
    _event(
        "observer.unreachable",
        "warning",
        "tick error",
        "The cluster does not answer the observer; it retries with back-off.",
    ),
    _event(
        "observer.producer_renewed",
        "warning",
        "error",
        "The producer of the metadata failed and was replaced.",
    ),
    _event(
        "observer.tick_failed",
        "error",
        "tick error traceback",
        "A tick failed unexpectedly, which is a bug; the next tick runs.",
    ),
    # Levelwind's own topics.
    _event(
        "publisher.published",
        "debug",
        "records seconds",
        "A transaction was committed.",
    ),
    _event(
        "topics.created",
        "info",
        "topic partitions replication",
        "The daemon created one of levelwind's topics.",
    ),
    _event(
        "topic_reader.caught_up",
        "info",
        "records seconds",
        "The topic reader has read everything that levelwind's topics held at the start.",
    ),
    _event(
        "topic_reader.resumed",
        "info",
        "seconds",
        "The cluster answers the topic reader again, after `seconds`.",
    ),
    _event(
        "canary.resumed",
        "info",
        "seconds",
        "The brokers take canaries again, after `seconds`.",
    ),
    _event(
        "publisher.ready",
        "info",
        "transactional_id",
        "This daemon is the planner; any older one is fenced.",
    ),
    _event(
        "topics.drifted",
        "warning",
        "topic setting expected found",
        "One of levelwind's topics is not configured as it should be; the daemon leaves it as it "
        "is.",
    ),
    _event(
        "topics.not_propagated",
        "warning",
        "broker error",
        "A broker does not know a new topic of levelwind's yet; the daemon goes on without "
        "waiting for it.",
    ),
    _event(
        "topics.replaced",
        "warning",
        "topics wait",
        "Topics of levelwind were deleted or created again. The daemon creates the missing ones, "
        "reads all of them from their beginning, and plans again after `wait` seconds, when no "
        "consumer holds a lease of the old topics any more.",
    ),
    _event(
        "topics.unchecked",
        "warning",
        "topic error",
        "The daemon may not read the configuration of one of levelwind's topics; it goes on "
        "unchecked.",
    ),
    _event(
        "rights.missing",
        "warning",
        "missing purpose hint",
        "The daemon's user lacks the right in `missing`, without which it cannot do what `purpose` "
        "says; it goes on.",
    ),
    _event(
        "record.rejected",
        "warning",
        "topic partition offset reason total suppressed",
        "A record in levelwind's topics does not match its schema; it is counted and skipped.",
    ),
    _event(
        "record.unwritten",
        "error",
        "topic key bytes",
        "A record is larger than its topic takes; one of the pipeline, even in shards. Raise the "
        "topic's max.message.bytes, which the pipeline asks for when it starts. What was written "
        "before stays in force until it is too old.",
    ),
    _event(
        "record.misplaced",
        "warning",
        "topic partition name",
        "A record is in another partition than its name belongs to and is skipped; its writer "
        "partitions wrongly.",
    ),
    _event(
        "topic_reader.unreachable",
        "warning",
        "error",
        "The cluster does not answer the topic reader; the last known state stays in force.",
    ),
    _event(
        "topic_reader.error",
        "warning",
        "error code topic partition suppressed",
        "The topic reader met a recoverable error and goes on.",
    ),
    _event(
        "publisher.aborted",
        "warning",
        "transactional_id",
        "A transaction was aborted; no reader sees any of it.",
    ),
    _event(
        "publisher.transaction_left_open",
        "warning",
        "error",
        "The daemon shut down with an open transaction; the brokers will abort it.",
    ),
    _event(
        "canary.unwritten",
        "warning",
        "topic partition error",
        "The brokers did not take a canary: no member of this partition counts as silent "
        "meanwhile.",
    ),
    _event(
        "commits.unfenced",
        "warning",
        "transactional_id error suppressed",
        "The commits of an evicted member could not be fenced yet, which is tried again; its "
        "partitions stay without an owner until then.",
    ),
    _event(
        "publisher.retrying",
        "warning",
        "error retry_in",
        "Publishing failed and is retried; assignments stay as they are until it succeeds.",
    ),
    _event(
        "topic_reader.crashed",
        "critical",
        "error",
        "The topic reader crashed; the daemon shuts down.",
    ),
    # The pipeline's process.
    _event(
        "pipeline.batch",
        "debug",
        "batch rows rows_per_second batch_ms durations behind newest delay_ms state_rows "
        "state_bytes rejected skipped",
        "The figures of one batch, for the metrics.",
    ),
    _event(
        "pipeline.trace",
        "debug",
        "error",
        "The trace of the query's failure, as Spark printed it.",
    ),
    _event(
        "pipeline.starting",
        "info",
        "attempt",
        "The daemon starts the pipeline's process.",
    ),
    _event(
        "pipeline.started",
        "info",
        "seconds imports spark query parallelism",
        "The query runs, after `seconds`: for Python's imports, for Spark's JVM and session, and "
        "for the query, which asks the cluster and checks the checkpoint; `parallelism` tasks do "
        "the work of a batch.",
    ),
    _event(
        "pipeline.progress",
        "info",
        "batch rows rows_per_second batch_ms behind newest state_rows state_bytes skipped",
        "The figures of one batch; written at most every ten seconds.",
    ),
    _event(
        "pipeline.catching_up",
        "info",
        "percent seconds_left behind rows_per_second",
        "The query is behind its input; until it has caught up, lag is as of the records read so "
        "far.",
    ),
    _event(
        "pipeline.caught_up",
        "info",
        "seconds rows rows_per_second rebuilt",
        "The query has read everything, or found nothing to read after a start; `rebuilt` says "
        "whether its state was rebuilt from the topics.",
    ),
    _event(
        "pipeline.stale_output_checked",
        "info",
        "keys",
        "`keys` records of an earlier checkpoint were not published again; those that the query "
        "does not confirm are deleted.",
    ),
    _event(
        "pipeline.stale_output_unchecked",
        "warning",
        "error",
        "The query could not be asked about records of an earlier checkpoint, which may be "
        "outdated, or the checkpoint's files do not take the note that it was: `error` says why. "
        "The query goes on; it is tried again every 30 seconds, and logged once in each start.",
    ),
    _event(
        "pipeline.rejected",
        "warning",
        "batch rejected",
        "Records could not be read, counted by reason; they are in the dead letters.",
    ),
    _event(
        "pipeline.checkpoint_set_aside",
        "warning",
        "moved_to reason",
        "The checkpoint was damaged, of another version or cluster, or had more unread than "
        "tombstones live for; it was moved away and the state is rebuilt from the topics.",
    ),
    _event(
        "pipeline.failed",
        "error",
        "error cause rebuild",
        "The query ended and is started again: `error` says why, `cause` is `machine`, `cluster`, "
        "`checkpoint` or `unknown`, and `rebuild` says whether its checkpoint is set aside then.",
    ),
    _event(
        "pipeline.died",
        "error",
        "exit_code attempt restart_in",
        "The pipeline's process ended, or could not be started, with `exit_code` null then; it is "
        "started again after `restart_in` seconds.",
    ),
    _event(
        "pipeline.unserved",
        "warning",
        "reason",
        "The query waits for the brokers: they do not serve a partition that it reads or writes "
        "(`reason`), or do not answer. The lag of all groups stands still until they do; logged "
        "once in each outage.",
    ),
    _event(
        "pipeline.quiet",
        "warning",
        "reason restart_after",
        "Lag stands still: for 10 seconds the pipeline's process has given no sign of life, or its "
        "query has read nothing of what the brokers have for it (`reason`). If that lasts for "
        "`restart_after` seconds it is killed, and started again.",
    ),
    _event(
        "pipeline.silent",
        "error",
        "reason",
        "The pipeline's process runs and does nothing: `reason` says what is missing. It is "
        "killed, and started again.",
    ),
    _event(
        "pipeline.gave_up",
        "error",
        "attempts window",
        "The pipeline died too often; the daemon shuts down.",
    ),
    _event(
        "pipeline.superseded",
        "error",
        "instance epoch started_at",
        "Another pipeline of the same prefix has started later: this one ends. The daemon whose "
        "child it was leaves the other one alone.",
    ),
    _event(
        "pipeline.elsewhere",
        "info",
        "instance",
        "This daemon starts no pipeline, since another one reports: the child of another daemon, "
        "or an application of its own.",
    ),
    _event(
        "pipeline.reporting",
        "info",
        "instance state batch",
        "A pipeline that runs elsewhere publishes its record: for the first time, after a restart, "
        "or again after a silence.",
    ),
    _event(
        "pipeline.unreported",
        "warning",
        "seconds instance",
        "The pipeline that runs elsewhere has published no record for `seconds`, which is three of "
        "its intervals. The daemon goes on with the lag that it knows; whatever runs the pipeline "
        "must start it again.",
    ),
    _event(
        "pipeline.ended",
        "error",
        "instance error",
        "The pipeline that runs elsewhere has ended; `error` says why. Whatever runs it must start "
        "it again.",
    ),
    # The leader proxy.
    _event(
        "proxy.leading",
        "info",
        "group generation",
        "The leader proxy leads the group and dictates its assignments.",
    ),
    _event(
        "proxy.waiting_for_lead",
        "info",
        "group generation",
        "The leader proxy is a member of the group without partitions; it leads when the brokers "
        "make it the leader, once the present one has left.",
    ),
    _event(
        "proxy.assigned",
        "info",
        "group protocol generation members plan planned local withheld",
        "The leader proxy gave the group an assignment: the plan placed `planned` partitions, the "
        "local strategy `local`, and `withheld` wait until another member has given them up.",
    ),
    _event(
        "proxy.carried",
        "info",
        "group plan carriers characters",
        "The leader proxy told a KIP-848 group's coordinator the plan, by the rack ids of so many "
        "carriers. Where `levelwind` is the group's assignor, the members get it with their next "
        "heartbeats.",
    ),
    _event(
        "proxy.disconnected",
        "warning",
        "group error retry_in",
        "The leader proxy lost its connection to the group's coordinator and connects again; the "
        "group goes on, by its own assignor if that takes longer than `proxy.session_timeout`.",
    ),
    _event(
        "proxy.left",
        "warning",
        "group reason action retry_in",
        "Something was unexpected, so the leader proxy left the group, which goes on by its own "
        "assignor. `action` says what to do; the proxy comes again after `retry_in` seconds.",
    ),
    _event(
        "proxy.left_silently",
        "warning",
        "group error",
        "The leader proxy could not tell the brokers that it leaves the group; they drop it after "
        "`proxy.session_timeout`.",
    ),
    _event(
        "proxy.fenced",
        "info",
        "group retry_in",
        "Another daemon of the installation goes on as the leader proxy's member of the group: "
        "this one was deposed, or is about to hear of it. If it leads after all, it takes the "
        "membership back after `retry_in` seconds.",
    ),
    _event(
        "proxy.refused",
        "warning",
        "group reason action retry_in",
        "The group is none that can be led: by a protocol that the leader proxy does not know, or "
        "of KIP-848 without the assignor `levelwind`. It stays out, and looks again after "
        "`retry_in` seconds.",
    ),
    _event(
        "proxy.failed",
        "error",
        "group error",
        "A fault of the leader proxy itself; it leaves the group, which goes on by its own "
        "assignor.",
    ),
    # Kafka's clients.
    _event(
        "kafka.throttled",
        "warning",
        "broker seconds suppressed",
        "A broker delays its answers to the daemon by `seconds`, since a client quota is used up; "
        "each broker is named every ten minutes at most. Give the daemon's user a larger quota.",
    ),
    # Libraries.
    _event(
        "library.log",
        "info",
        "library text",
        "A log line of a library; it has the library's own level, and info for Spark.",
    ),
)

EVENTS = {event.name: event for event in VOCABULARY}


def level_of(event: str) -> str:
    """Return the level that an event is written at."""
    return EVENTS[event].level


def table() -> str:
    """Return the vocabulary as the Markdown table of `docs/log-events.md`."""
    rows = (f"| `{event.name}` | {event.level} | {event.meaning} |" for event in VOCABULARY)
    return "\n".join(("| event | level | meaning |", "|---|---|---|", *rows))
