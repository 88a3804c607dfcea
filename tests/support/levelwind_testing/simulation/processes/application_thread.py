"""The application's thread of a consumer: poll, handlers, commits, and the member's orders.

Models `levelwind.clients.confluent`: the lease is asked before every hand-out, commit and
grant; within `guard` of its end nothing is handed out; past it everything is dropped.
"""

from functools import partial

from levelwind.assignors.handover import member_events as ev

POLL_SECONDS = 0.3
COMMIT_INTERVAL_SECONDS = 5.0
RETRY_SECONDS = 1.0


class ApplicationThread:
    """Reads records of the partitions that it uses, and works on each for a while."""

    def __init__(self, process):
        self.process = process
        self.world = process.world
        self.random = process.random
        self.positions = {}
        """Next offset to hand out of each partition in use."""
        self.processed = {}
        """Offset below which everything is processed, to be committed."""
        self.committed = {}
        self.working_on = None
        """Partition of the records that the application works on."""
        self._answers = {}
        """Outcome of each commit by number; None until it is known."""
        self._sent_at = {}
        """When each commit was sent, by number."""
        self._undecided_until = float("-inf")
        self._must_fence = False
        """Whether a transactional commit was given up, so that the next one needs a new epoch."""
        self._commit_at = 0.0
        self._number = 0
        self._grant_since = None
        self._batch = None

    # Conditions.

    def _deliverable(self):
        """Whether the lease allows to hand out, commit and start partitions."""
        return self.world.shell.deliverable(self.process)

    def _lease_over(self):
        return self.world.shell.lease_over(self.process)

    # The loop.

    def run(self):
        process = self.process
        while True:
            process.left_poll_at = None
            self._count_handed_out()
            yield from self._perform_orders()
            if not process.alive:
                return  # killed at an effect of the follower's thread
            if process.machine_state.phase == "left":
                process.end("left")
                return
            self._drop_if_over()
            yield from self._effect()
            yield from self._commit_in_time()
            # Between the questions above and the hand-out the thread may lose its core.
            batch = self._next_batch()
            if batch is None:
                yield POLL_SECONDS * (0.5 + self.random.random())
                continue
            process.left_poll_at = process.now()
            self.working_on = batch[0]
            yield self.world.handler_seconds(process)
            self.working_on = None
            self._batch = batch

    def _effect(self):
        """Let a planned end or stop happen here."""
        process = self.process
        if process.countdown is not None:
            process.countdown -= 1
            if process.countdown < 0:
                process.at_countdown()
                yield 0.0

    def _next_batch(self):
        """Hand out some records of one partition in use, if the lease allows it."""
        process = self.process
        if not self.positions or process.lost or not self._deliverable():
            return None
        pair = self.random.choice(list(self.positions))
        if pair not in self.world.inputs.partitions:
            return None
        first = self.positions[pair]
        behind = first + self.random.randint(1, 3)
        self.positions[pair] = behind
        process.checks.delivered(process, pair, first, behind)
        return pair, first, behind

    def _count_handed_out(self):
        if self._batch is None:
            return
        pair, first, behind = self._batch
        self._batch = None
        self.process.checks.worked_on(self.process, pair, first, behind)
        if pair in self.positions and not self.process.lost:
            self.processed[pair] = behind

    def _drop_if_over(self):
        """Past the end of the lease nothing is used any more, whatever the follower knows."""
        if self.positions and self._lease_over():
            self.process.world.trace(self.process, "drops everything: its lease is over")
            self._release(set(self.positions))

    # Orders.

    def _perform_orders(self):
        process = self.process
        orders = process.orders
        while orders:
            order = orders[0]
            if process.lost and not isinstance(order, ev.Lose):
                orders.popleft()
                self._grant_since = None
                continue
            yield from self._effect()
            match order:
                case ev.Grant(partitions):
                    if not (yield from self._grant(order, partitions)):
                        return
                case ev.Revoke(partitions):
                    orders.popleft()
                    yield from self._revoke(partitions)
                case ev.Lose():
                    orders.popleft()
                    yield from self._lose()

    def _grant(self, order, partitions):
        process = self.process
        now = process.now()
        if self._grant_since is None:
            self._grant_since = now
        state = process.machine_state
        if state.grant_superseded or now - self._grant_since > process.timers.start_timeout:
            process.orders.popleft()
            self._grant_since = None
            process.handle(ev.GrantFailed(partitions))
            return True
        answer = []
        process.link.request(self._fetch_committed, partitions, answer)
        deadline = now + RETRY_SECONDS
        while not answer and process.now() < deadline:
            yield 0.02 + 0.02 * self.random.random()
        if not answer or process.lost or not self._deliverable():
            return False
        if not process.orders or process.orders[0] is not order:
            return False
        process.orders.popleft()
        self._grant_since = None
        self._start(answer[0])
        process.handle(ev.GrantFinished())
        return True

    def _fetch_committed(self, partitions, answer):
        committed = self.process.cluster.committed
        group = self.process.group
        offsets = {pair: committed.get((group, *pair), 0) for pair in partitions}
        self.process.checks.start_offsets_read(self.process, partitions)
        self.process.link.answer(self.process, answer.append, offsets)

    def _start(self, offsets):
        for pair, offset in sorted(offsets.items()):
            self.positions[pair] = offset
            self.committed[pair] = offset
            self.process.checks.started(self.process, pair, offset)

    def _revoke(self, partitions):
        outcome = yield from self._commit_finally(partitions)
        self._release(partitions)
        if outcome == "unknown":
            self.process.post_undecided()
        else:
            self.process.handle(ev.RevokeFinished())

    def _lose(self):
        process = self.process
        self._release(set(self.positions))
        decided = process.now() >= self._undecided_until and not self._answers
        if process.profile.transactional_id is not None:
            # Each life commits under an epoch of its own.
            yield from self._fence_own_commits()
            decided = True
        process.lost = False
        process.handle(
            ev.LoseFinished(
                self.world.new_incarnation(process.instance), no_commit_in_flight=decided
            )
        )

    def _release(self, partitions):
        for pair in sorted(partitions):
            if self.positions.pop(pair, None) is not None:
                self.process.checks.released(self.process, pair)
            self.processed.pop(pair, None)
            self.committed.pop(pair, None)

    # Commits.

    def _uncommitted(self, partitions):
        return {
            pair: offset
            for pair, offset in self.processed.items()
            if pair in partitions and self.committed.get(pair) != offset
        }

    def _send(self, offsets):
        process = self.process
        process.checks.commit_called(process, offsets)
        self._number += 1
        self._answers[self._number] = None
        self._sent_at[self._number] = process.now()
        late_until, late = self.world.late_commits.get(process.instance, (0.0, 0.0))
        if process.scheduler.now < late_until:
            delay = late * self.random.random()
            process.scheduler.delayed(process.scheduler.now + delay)
            send = partial(process.scheduler.after, delay, None)
        else:
            send = process.link.request
        send(
            process.cluster.commit_offsets,
            process,
            process.group,
            dict(offsets),
            self.world.transactional(process),
            self._answered,
            self._number,
        )
        return self._number

    def _answered(self, number, outcome):
        if number in self._answers:
            self._answers[number] = outcome

    def _commit_in_time(self):
        """Commit at intervals what was processed, if the lease allows it."""
        process = self.process
        now = process.now()
        for number, outcome in list(self._answers.items()):
            if outcome is not None:
                del self._answers[number]
            elif now - self._sent_at[number] > process.timers.commit / 4:
                # The client gives the commit up, and it may arrive all the same.
                del self._answers[number]
                self._undecided_until = now + process.timers.commit
                self._must_fence = process.profile.transactional_id is not None
        if self._must_fence and not (yield from self._try_to_fence()):
            return
        if now < self._commit_at or process.lost or not self._deliverable():
            return
        self._commit_at = now + COMMIT_INTERVAL_SECONDS
        offsets = self._uncommitted(self.positions)
        if offsets and not self._answers:
            self._send(offsets)
            self.committed.update(offsets)

    def _commit_finally(self, partitions):
        """Commit what is given up, and return the outcome of all commits under way."""
        process = self.process
        if self._must_fence:
            yield from self._fence_own_commits()
        deadline = process.now() + process.timers.commit / 4
        if process.profile.transactional_id is not None:
            # A producer has one transaction: `TransactionalCommits` ends the last one first.
            yield from self._await_answers(deadline)
        offsets = self._uncommitted(partitions)
        one_too_many = process.profile.transactional_id is not None and self._pending()
        if offsets and not one_too_many and self._deliverable():
            self._send(offsets)
        yield from self._await_answers(deadline)
        if self._pending():
            self._undecided_until = process.now() + process.timers.commit
            self._answers.clear()
            if process.profile.transactional_id is not None:
                yield from self._fence_own_commits()
                return "refused"
            return "unknown"
        self._answers.clear()
        return "committed" if process.now() >= self._undecided_until else "unknown"

    def _await_answers(self, deadline):
        while self._pending() and self.process.now() < deadline:
            yield 0.02 + 0.03 * self.random.random()

    def _pending(self):
        return any(outcome is None for outcome in self._answers.values())

    def _fence_own_commits(self):
        """Make the outcome of transactional commits known: initialise the id again."""
        while not (yield from self._try_to_fence()):
            pass

    def _try_to_fence(self):
        process = self.process
        done = []
        process.link.request(self.world.fence_commits_of, process, done)
        deadline = process.now() + RETRY_SECONDS
        while not done and process.now() < deadline:
            yield 0.02
        if done:
            self._answers.clear()
            self._undecided_until = float("-inf")
            self._must_fence = False
        return bool(done)
