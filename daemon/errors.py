"""What ends a command, and whose fault it is: each error carries the exit code that the command line documents."""

from __future__ import annotations

from typing import ClassVar


class LevelwindError(Exception):
    """Something that the person at the command line can act on; its text says what to do."""

    exit_code: ClassVar[int] = 1


class ConfigurationError(LevelwindError):
    """A setting is wrong: the operator's to mend, nothing was started."""

    exit_code = 2


class ClusterUnavailableError(LevelwindError):
    """The Kafka cluster did not answer in time, or refused what the daemon cannot do without."""

    exit_code = 3


class FencedError(LevelwindError):
    """Another planner has taken over: this one must stop at once and touch nothing more."""

    exit_code = 4


class PipelineFailedError(LevelwindError):
    """The pipeline died more often than the settings allow."""

    exit_code = 5


class NotFoundError(LevelwindError):
    """What was asked for does not exist."""

    exit_code = 6
