"""Model of the brokers: levelwind's topics, transactions, committed offsets, and the way to them.

Every request and every answer takes a time of its own. A link that is cut holds what is under way
until it is whole again, or loses it. What reached the brokers stays, whoever sent it.
"""

from levelwind.assignors.protocol.records import partitions_for
from levelwind_testing.simulation.modelled_brokers.partition_log import Partition, Transaction

KINDS = ("metadata", "lag", "triggers", "members", "assignments", "control")
TRANSACTION_TIMEOUT_SECONDS = 10.0
MARKER_SECONDS = 0.02


class Cluster:
    """The brokers."""

    def __init__(self, scheduler, random, partitions):
        self.scheduler = scheduler
        self.random = random
        self.partitions = {
            kind: [Partition(kind, number) for number in range(partitions.get(kind, 1))]
            for kind in KINDS
        }
        self._partitions_for = {}
        self.producer_epoch = 0
        self.lead_owner = None
        """The daemon that the group gives the lead."""
        self.lead_seen_at = float("-inf")
        """When its last heartbeat came."""
        """Epoch of the planners' transactional id."""
        self.late_markers_until = 0.0
        self.latest_marker = 0.0
        self.loses_commit_answers_until = 0.0
        self._aborted_below = 0
        """Number of the request that aborted last: nothing sent before it is taken any more."""
        self._initialised = {}
        """Number of each process's newest request to become the planner."""
        self.unfinished = []
        """Transactions with a marker still to be written."""
        self.on_committed = None
        """Called with each transaction when it is committed."""
        self.on_marked = None
        """Called with a committed transaction once all its records can be read."""
        self.on_announced = None
        """Called with the key and the record of each announcement that is written."""
        self.committed = {}
        """Committed offset by (group, topic, partition)."""
        self.transactional_epochs = {}
        """Epoch of each member's transactional id."""
        self.on_commit = None

    def partitions_of(self, kind, key):
        found = self._partitions_for.get((kind, key))
        if found is None:
            logs = self.partitions[kind]
            found = [logs[number] for number in partitions_for(kind, key, len(logs))]
            self._partitions_for[kind, key] = found
        return found

    # Records of single producers.

    def write(self, kind, key, record):
        """Append a record to each partition of its key, as a producer without transactions."""
        now = self.scheduler.now
        for partition in self.partitions_of(kind, key):
            partition.append(now, key, record)
        if kind == "members":
            self.on_announced(key, record)

    def produced(self, process, kind, key, record, acknowledged, number):
        """Take a record of a process and acknowledge it."""
        self.write(kind, key, record)
        if acknowledged is not None:
            process.link.answer(process, acknowledged, number)

    def produced_to(self, process, partition, record, acknowledged):
        """Take a record that every partition has one of; acknowledge it by the partition."""
        partition.append(self.scheduler.now, record.key, record)
        process.link.answer(process, acknowledged, partition)

    # Transactions of the planners.

    def initialise(self, process, number, initialised):
        """Fence the planner before, abort its transaction, and answer when that has its markers.

        The coordinator asks a client to come again (CONCURRENT_TRANSACTIONS) until then, so that
        the stable ends that it asks for afterwards lie behind everything of the planner before. A
        client has one such request under way, whatever its application waits for: it sends
        another one only when the connection of the first is gone, and that one with it.
        """
        if number < self._initialised.get(process, 0):
            return
        self._initialised[process] = number
        self.producer_epoch += 1
        self._aborted_below = 0
        for transaction in list(self.unfinished):
            if transaction.outcome == "open":
                self._decide(transaction, "aborted")
        self._complete(process, self.producer_epoch, initialised)

    def _complete(self, process, producer_epoch, initialised):
        if self.unfinished:
            args = process, producer_epoch, initialised
            self.scheduler.after(0.02, None, self._complete, *args)
        else:
            process.link.answer(process, initialised, producer_epoch)

    def begin(self, process, producer_epoch, number, records, begun):
        """Take the records of one transaction; `begun` gets the transaction, None if fenced."""
        if producer_epoch < self.producer_epoch:
            process.link.answer(process, begun, None)
            return
        if number <= self._aborted_below:
            return
        if self.unfinished:
            # The markers of the last transaction are still missing: the client tries again.
            self.scheduler.after(
                0.02, None, self.begin, process, producer_epoch, number, records, begun
            )
            return
        now = self.scheduler.now
        transaction = Transaction(producer_epoch, records, begun_at=now)
        self.unfinished.append(transaction)
        for kind, key, record in records:
            for partition in self.partitions_of(kind, key):
                partition.append(now, key, record, transaction)
        self.scheduler.after(TRANSACTION_TIMEOUT_SECONDS, None, self._time_out, transaction)
        process.link.answer(process, begun, transaction)

    def commit(self, process, transaction, ended):
        """Decide a transaction; the answer may be lost, and markers are written afterwards."""
        if transaction.outcome == "open" and transaction.producer_epoch == self.producer_epoch:
            self._decide(transaction, "committed")
        fenced = transaction.producer_epoch < self.producer_epoch
        if self.scheduler.now < self.loses_commit_answers_until and self.random.random() < 0.7:
            return
        process.link.answer(process, ended, "fenced" if fenced else transaction.outcome)

    def abort(self, process, producer_epoch, number, aborted):
        """Abort what a planner began by requests up to this number: none of them is taken later."""
        if producer_epoch < self.producer_epoch:
            process.link.answer(process, aborted, "fenced")
            return
        self._aborted_below = max(self._aborted_below, number)
        for transaction in list(self.unfinished):
            if transaction.outcome == "open":
                self._decide(transaction, "aborted")
        process.link.answer(process, aborted, "aborted")

    def _time_out(self, transaction):
        if transaction.outcome == "open":
            # The coordinator fences the producer as it aborts its transaction.
            self.producer_epoch += 1
            self._decide(transaction, "aborted")

    def _decide(self, transaction, outcome):
        now = self.scheduler.now
        transaction.outcome = outcome
        transaction.decided_at = now
        if outcome == "committed":
            self.on_committed(transaction)
        late = self.latest_marker if now < self.late_markers_until else 0.0
        for partition in sorted(transaction.unmarked, key=lambda p: (p.kind, p.number)):
            delay = MARKER_SECONDS * self.random.random() + late * self.random.random()
            self.scheduler.after(delay, None, self._mark, partition, transaction)
            if late:
                self.scheduler.delayed(now + delay)
        if not transaction.unmarked and transaction in self.unfinished:
            self.unfinished.remove(transaction)

    def _mark(self, partition, transaction):
        if partition in transaction.unmarked:
            partition.mark(self.scheduler.now, transaction)
        if not transaction.unmarked and transaction in self.unfinished:
            self.unfinished.remove(transaction)
            if transaction.outcome == "committed":
                self.on_marked(transaction)

    def clear(self, kinds):
        """Make topics anew: what they held, and what was being written, is gone."""
        for kind in kinds:
            for partition in self.partitions[kind]:
                partition.clear()
        self.unfinished = []

    # The group of daemons.

    def lead_heartbeat(self, process, session, answered):
        """Take a heartbeat of a daemon; `answered` gets whether the group gives it the lead."""
        now = self.scheduler.now
        if not process.alive:
            return
        if self.lead_owner is not process and now - self.lead_seen_at > session:
            self.lead_owner = process
        if self.lead_owner is process:
            self.lead_seen_at = now
        process.link.answer(process, answered, self.lead_owner is process)

    def leave_lead(self, process):
        """Take a daemon out of the group."""
        if self.lead_owner is process:
            self.lead_owner, self.lead_seen_at = None, float("-inf")

    # Committed offsets.

    def fence_commits(self, transactional_id):
        """Return the next epoch of a member's transactional id: older ones commit no more."""
        epoch = self.transactional_epochs.get(transactional_id, 0) + 1
        self.transactional_epochs[transactional_id] = epoch
        return epoch

    def fence_for(self, process, transactional_id, fenced):
        """Fence a member's commits for the planner."""
        process.link.answer(process, fenced, self.fence_commits(transactional_id))

    def commit_offsets(self, process, group, offsets, transactional, answered, number):
        """Take a commit; `transactional` is (id, epoch) or None."""
        if transactional is not None:
            name, epoch = transactional
            if epoch < self.transactional_epochs.get(name, 0):
                process.link.answer(process, answered, number, "refused")
                return
        for pair, offset in offsets.items():
            self.on_commit(process, group, pair, offset, transactional is not None)
            self.committed[group, *pair] = offset
        process.link.answer(process, answered, number, "committed")
