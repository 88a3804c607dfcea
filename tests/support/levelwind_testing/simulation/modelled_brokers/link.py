"""Way between one process and the brokers: it delays, holds, and loses."""


class Link:
    """The way between one process and the brokers."""

    def __init__(self, scheduler, random):
        self.scheduler = scheduler
        self.random = random
        self.requests_cut_until = 0.0
        self.answers_cut_until = 0.0
        self.slow_until = 0.0
        self.slowest = 0.0
        self.late_answers_until = 0.0
        self.answer_delay = 0.0
        """Seconds that an answer takes until then."""
        self.lag_until = 0.0
        self.most_lag = 0.0
        self.hold_next = 0.0
        """Seconds by which the next record arrives late."""
        self.holds = True
        """Whether a cut holds what is under way; otherwise it is lost."""
        self.stale_ends = {}
        """Stable ends of partitions that the process reads from a leader that was deposed."""
        self._produced_at = 0.0

    def cut(self, until, *, holds, requests=True, answers=True):
        """Let nothing through until a time."""
        if requests:
            self.requests_cut_until = max(self.requests_cut_until, until)
        if answers:
            self.answers_cut_until = max(self.answers_cut_until, until)
        self.holds = holds

    def _delay(self):
        delay = 0.002 + 0.03 * self.random.random() ** 3
        if self.scheduler.now < self.slow_until:
            delay += self.slowest * self.random.random()
            self.scheduler.delayed(self.scheduler.now + delay)
        return delay

    def request(self, action, *args):
        """Send a request; the brokers take it even if the process is dead by then."""
        arrives = self.scheduler.now + self._delay()
        if arrives < self.requests_cut_until:
            if not self.holds:
                return
            arrives = self.requests_cut_until + self._delay()
        self.scheduler.at(arrives, None, action, *args)

    def produce(self, action, *args):
        """Send a record; one producer's records arrive in their order."""
        arrives = self.scheduler.now + self._delay()
        if self.hold_next:
            # The producer is replaced with this record under way: the next ones overtake it.
            self.scheduler.at(arrives + self.hold_next, None, action, *args)
            self.scheduler.delayed(arrives + self.hold_next)
            self.hold_next = 0.0
            return
        if arrives < self.requests_cut_until:
            if not self.holds:
                return
            arrives = self.requests_cut_until + self._delay()
        self._produced_at = arrives = max(arrives, self._produced_at + 1e-6)
        self.scheduler.at(arrives, None, action, *args)

    def answer(self, process, action, *args):
        """Answer a request of a process."""
        arrives = self.scheduler.now + self._delay()
        if self.scheduler.now < self.late_answers_until:
            arrives += self.answer_delay
            self.scheduler.delayed(arrives)
        if arrives < self.answers_cut_until:
            if not self.holds:
                return
            arrives = self.answers_cut_until + self._delay()
        self.scheduler.at(arrives, process, action, *args)

    def fetch_arrives(self):
        """Time at which records arrive that can be read now."""
        now = self.scheduler.now
        arrives = now + self._delay()
        if now < self.lag_until:
            arrives += self.most_lag * self.random.random()
            self.scheduler.delayed(arrives)
        cut_until = max(self.requests_cut_until, self.answers_cut_until)
        return cut_until + self._delay() if arrives < cut_until else arrives
