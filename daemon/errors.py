"""Errors that end a command, by whose fault they are; each has the exit code of the command."""

from __future__ import annotations


class LevelwindError(Exception):
    """An error that the person at the command line can act on; its text says what to do."""

    exit_code: int = 1


class ConfigurationError(LevelwindError):
    """A setting is wrong, or the machine does not give what it asks for; nothing was started.

    The text names the setting. The operator must correct it, unless the machine's trouble passes.
    """

    exit_code = 2


class ClusterUnavailableError(LevelwindError):
    """The cluster did not answer in time, or refused a request that the daemon depends on."""

    exit_code = 3


class FencedError(LevelwindError):
    """Another planner has taken over: this one must stop at once and write nothing more.

    It ends no command: a daemon that is fenced stands by.
    """


class PipelineFailedError(LevelwindError):
    """The pipeline died more often than the settings allow."""

    exit_code = 5


class NotFoundError(LevelwindError):
    """The group, topic or record that a command names does not exist."""

    exit_code = 6
