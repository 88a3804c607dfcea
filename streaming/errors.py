"""What can be wrong outside: when the pipeline starts, and in what it reads."""


class PipelineError(Exception):
    """Something outside keeps the pipeline from starting."""


class ClusterUnreachable(PipelineError):  # noqa: N818 - says what is the matter
    """No broker answers in time."""


class TopicMissing(PipelineError):  # noqa: N818 - likewise
    """A topic that the pipeline reads or writes is not there."""


class AccessDenied(PipelineError):  # noqa: N818 - likewise
    """The cluster does not let us."""


class UnknownVersion(ValueError):  # noqa: N818 - a verdict, as WireError
    """A record that was written by a newer broker than this knows."""
