"""Errors from outside the pipeline: at its start, and in the records that it reads."""


class PipelineError(Exception):
    """Something outside keeps the pipeline from starting."""


class ClusterUnreachable(PipelineError):  # noqa: N818 - the name is the whole diagnosis
    """No broker answers in time."""


class TopicMissing(PipelineError):  # noqa: N818 - as above
    """A topic that the pipeline reads or writes does not exist."""


class AccessDenied(PipelineError):  # noqa: N818 - as above
    """The cluster refuses the pipeline's credentials, or they lack a right."""


class UnknownVersion(ValueError):  # noqa: N818 - a verdict on a record, as WireError is
    """A record of a version that only newer brokers write."""
