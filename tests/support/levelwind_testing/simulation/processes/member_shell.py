"""The decisions of a member's shell that mutants replace."""


class Shell:
    """The shell as the client has it."""

    def member_clock(self, process):
        """The clock of the member: it goes on while the machine sleeps."""
        return process.boot_seconds()

    def moment(self, _process, sent_at):
        """The time from which an answer renews the lease: before its request was sent."""
        return sent_at

    def deliverable(self, process):
        """Whether the application's thread may hand out, commit and start partitions."""
        state = process.machine_state
        return state.phase not in ("lost", "left") and state.lease.deliverable(process.now())

    def lease_over(self, process):
        """Whether everything must be dropped at once."""
        return process.machine_state.lease.lapsed(process.now())
