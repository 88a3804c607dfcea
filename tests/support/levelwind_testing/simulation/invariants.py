"""The properties of the protocol, checked whenever something happens that could break one.

Two owners: a partition comes into use, or is used again, only at a grant, a hand-out, or a renewal
of a lease that was over. Between these events a lease can only end. So a check at each of them is a
check at every time.
"""

from collections import defaultdict

from levelwind.assignors.handover.ledger import Incarnation
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import GroupRecord, MemberAssignment, MemberRecord


class ViolationError(AssertionError):
    """A property does not hold; `group` is the group that it is about."""

    def __init__(self, message, group=None):
        super().__init__(message)
        self.group = group


def holder_of(key):
    return Incarnation(key[2], key[3])


class IncarnationHistory:
    """What the log shows of one incarnation: enough to judge whether it gave a partition up."""

    def __init__(self):
        self.announced = set()
        """(acknowledged epoch, owned partitions) of its announcements."""
        self.left = False
        self.revoked = {}
        """Epoch of the record that took a partition back."""
        self.evicted_at = None
        """When its eviction could be read; None before."""


class Checks:
    """Everything that must hold in one world."""

    def __init__(self, world):
        self.world = world
        self.users = defaultdict(set)
        """Processes that use a partition, by group and partition."""
        self.frontier = defaultdict(int)
        """Offset below which everything was worked on, by group and partition."""
        self.start_reader = {}
        """The process that read the start offset of a partition last."""
        self.records = defaultdict(dict)
        """The newest committed assignment of each key, by group."""
        self.plans = {}
        """The newest committed plan of each group."""
        self.epochs = {}
        self.holders = {}
        """The incarnation that was granted a partition last, by group and partition."""
        self.histories = defaultdict(IncarnationHistory)
        self._last_records = None
        self._unknown_until = 0.0
        """Until when members have not announced themselves anew, after the records were lost."""
        self.commits_put_back = 0
        self.frozen = set()
        """Groups that froze since the last fault."""

    def fail(self, message, group=None):
        raise ViolationError(message, group)

    # Members.

    def started(self, process, pair, offset):
        place = (process.group, pair)
        self.world.trace(process, "starts", f"{pair[0]}-{pair[1]} at {offset}")
        if offset > self.frontier[place]:
            self.fail(f"{process.name} starts {pair} at {offset}, beyond what was processed")
        self.users[place].add(process)
        self._only_owner(process, pair)

    def released(self, process, pair):
        self.world.trace(process, "releases", f"{pair[0]}-{pair[1]}")
        self.users[process.group, pair].discard(process)

    def _only_owner(self, process, pair):
        users = self.users[process.group, pair]
        if len(users) == 1:
            return
        for other in sorted(users, key=lambda user: user.name):
            if other is process:
                continue
            if not other.alive:
                users.discard(other)
            elif other.lease_valid:
                self.fail(f"{process.name} and {other.name} both own {pair}", process.group)

    def delivered(self, process, pair, _first, _behind):
        if not process.lease_valid:
            self.fail(f"{process.name} hands out records of {pair} after its lease", process.group)
        self._only_owner(process, pair)

    def worked_on(self, process, pair, first, behind):
        place = (process.group, pair)
        if first > self.frontier[place]:
            self.fail(f"{process.name} skipped {self.frontier[place]}..{first} of {pair}")
        self.frontier[place] = max(self.frontier[place], behind)

    def commit_called(self, process, offsets):
        if not process.lease_valid:
            self.fail(f"{process.name} commits {offsets} after its lease", process.group)

    def commit_arrived(self, process, group, pair, offset, transactional):
        place = (group, pair)
        if offset > self.frontier[place]:
            self.fail(
                f"{process.name} commits {offset} of {pair}, beyond what was processed", group
            )
        if offset < self.world.cluster.committed.get((group, *pair), 0):
            self.commits_put_back += 1
            if transactional:
                self.fail(f"a commit of {process.name} puts {pair} back to {offset}", group)
        reader = self.start_reader.get(place)
        if transactional and reader is not None and reader is not process:
            self.fail(f"a commit of {process.name} for {pair} came after the next grant", group)

    def start_offsets_read(self, process, partitions):
        for pair in partitions:
            self.start_reader[process.group, pair] = process

    def member_stepped(self, process, before, after):
        if before.incarnation != after.incarnation:
            return
        if after.newest_epochs < before.newest_epochs or after.acked_epochs < before.acked_epochs:
            self.fail(f"the epochs of {process.name} go back", process.group)
        if before.lease is not after.lease:
            now = process.now()
            if after.lease.valid(now) and not before.lease.valid(now):
                for pair in list(process.application.positions):
                    self._only_owner(process, pair)

    # Announcements.

    def announced(self, key, record):
        if key[0] != "m":
            return
        history = self.histories[key]
        if record is None:
            # The planner's own tombstones are part of a transaction and do not come here.
            history.left = True
        elif isinstance(record, MemberRecord):
            if record.state == "left" and not record.owned:
                history.left = True
            history.announced.add((record.acked_epoch, ranges.pairs(record.owned)))

    # Planners.

    def committed(self, transaction):
        """Check one transaction against the ones before it."""
        if transaction.records is self._last_records:
            return  # published twice
        self._last_records = transaction.records
        published = [
            (key, record)
            for kind, key, record in transaction.records
            if kind == "assignments" and key[0] != "planner"
        ]
        for key, record in published:
            if record is not None and not self._same_plan(record):
                self._epochs_rise(key[1], record)
            if isinstance(record, GroupRecord):
                self.plans[record.group] = record
            elif record is None:
                self.records[key[1]].pop(key, None)
        now = self.world.scheduler.now
        for key, record in published:
            if isinstance(record, MemberAssignment):
                self._granted(key, record, now)
        for group in {key[1] for key, _ in published}:
            self._no_partition_twice(group)

    def _same_plan(self, record):
        """Whether a record repeats the plan in force, with what else it keeps of the group."""
        plan = self.plans.get(getattr(record, "group", None))
        return isinstance(record, GroupRecord) and plan and plan.plan_id == record.plan_id

    def _epochs_rise(self, group, record):
        epochs = (record.planner_epoch, record.group_epoch)
        last = self.epochs.get(group)
        if last is not None and last[0] is not self._last_records and epochs <= last[1]:
            self.fail(f"{group}: epochs {epochs} follow {last[1]}", group)
        self.epochs[group] = (self._last_records, epochs)

    def _granted(self, key, record, now):
        group = record.group
        history = self.histories[key]
        before = self.records[group].get(key)
        assigned = ranges.pairs(record.assigned)
        had = ranges.pairs(before.assigned) if before is not None else frozenset()
        for pair in sorted(assigned - had):
            holder = self.holders.get((group, pair))
            if holder is not None and not self._gave_up(holder, pair, now):
                self.fail(
                    f"{pair} is granted to {key[2:]} and was not given up by {holder[2:]}", group
                )
            self.holders[group, pair] = key
            history.revoked.pop(pair, None)
        for pair in had - assigned:
            history.revoked[pair] = record.member_epoch
        self.records[group][key] = record

    def _gave_up(self, holder, pair, now):
        history = self.histories[holder]
        if history.left:
            return True
        evicted_at = history.evicted_at
        if evicted_at is not None and now - evicted_at >= self.world.settings.least_wait:
            return True
        epoch = history.revoked.get(pair)
        return epoch is not None and any(
            acked >= epoch and pair not in owned for acked, owned in history.announced
        )

    def marked(self, transaction):
        """Note which evictions can be read from now on."""
        for kind, key, record in transaction.records:
            if kind == "assignments" and isinstance(record, MemberAssignment):
                history = self.histories[key]
                if record.state == "evicted" and history.evicted_at is None:
                    history.evicted_at = self.world.scheduler.now

    def _no_partition_twice(self, group):
        """No partition is granted twice; what somebody claims and gave up long ago is no grant."""
        granted, claimed = {}, []
        for key, record in self.records[group].items():
            for pair in ranges.pairs(record.assigned):
                if pair in granted:
                    self.fail(f"records grant {pair} to {key[2:]} and {granted[pair][2:]}", group)
                granted[pair] = key
            claimed += [(pair, key) for pair in ranges.pairs(record.revoking)]
        now = self.world.scheduler.now
        for pair, key in claimed:
            if pair in granted and not self._gave_up(key, pair, now):
                self.fail(f"{pair} is granted to {granted[pair][2:]} and still {key[2:]}'s", group)

    def recovered(self, planner, state):
        """Check that a planner that starts knows every owner, and keeps the target."""
        if self.world.scheduler.now < self._unknown_until:
            return
        for (group, pair), users in self.users.items():
            for user in users:
                if not user.lease_valid:
                    continue
                holdings = state.groups[group].ledger.holdings if group in state.groups else {}
                # Claims of others may stand beside it: then nobody else is granted it either.
                owner = {
                    incarnation
                    for incarnation, holding in holdings.items()
                    if pair in holding.granted or pair in holding.revoking
                }
                expected = Incarnation(user.instance, user.machine_state.incarnation)
                if expected not in owner:
                    self.fail(
                        f"{planner.name} takes {owner} for the owner of {pair}, not {expected}",
                        group,
                    )
        for group, records in self.records.items():
            self._keeps_target(planner, state, group, records)

    def _keeps_target(self, planner, state, group, records):
        recovered = state.groups.get(group)
        plan = self.plans.get(group)
        if recovered is None or plan is None or recovered.plan != plan:
            return  # planned anew in the same step
        shares = defaultdict(set)
        for record in records.values():
            if record.state == "active":
                shares[record.instance] |= ranges.pairs(record.assigned) | ranges.pairs(
                    record.pending
                )
        for instance, share in shares.items():
            if recovered.target.get(instance, frozenset()) != share:
                found = sorted(recovered.target.get(instance, ()))
                self.fail(
                    f"{planner.name} starts with {found} for {instance}, not {sorted(share)}", group
                )

    def logged(self, planner, event, fields):
        if event == "group.frozen":
            self.frozen.add(fields["group"])
        self.world.logged(planner, event, fields)

    def epochs_published(self):
        """The epochs of each group's last transaction."""
        return {group: epochs for group, (_, epochs) in self.epochs.items()}

    def records_lost(self):
        """Levelwind's topics were made anew: what they held proves nothing any more."""
        self.records.clear()
        self.plans.clear()
        self.epochs.clear()
        self.holders.clear()
        self.histories.clear()
        self._unknown_until = self.world.scheduler.now + 2 * self.world.settings.member_timers.hold
