"""The command line. Results go to standard output, logs and progress to standard error.

A command's module is imported when the command runs or its own help is requested: `levelwind
--help` must not wait for the libraries of Kafka or Spark, nor for NumPy.

Exit codes: 0 done · 1 a bug · 2 wrong usage or settings, or the machine does not give what they ask
for · 3 the cluster is not available · 5 the pipeline gave up · 6 not found · 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from levelwind.daemon.console import echo
from levelwind.daemon.errors import LevelwindError

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyCommand(NamedTuple):
    """Location of a command, and its line in the list of commands."""

    module: str
    """Name of a module of `levelwind.daemon.cli`; the command has its own name there."""
    short_help: str


COMMANDS: Mapping[str, LazyCommand] = {
    "run": LazyCommand("run", "Run the daemon."),
    "pipeline": LazyCommand("run", "Run the pipeline without the daemon."),
    "demo": LazyCommand("run", "Run a demo on this machine."),
    "cluster": LazyCommand("run", "Run Kafka brokers on this machine."),
    "assess": LazyCommand("inspect", "Assess a cluster as it is, read only."),
    "groups": LazyCommand("inspect", "List the groups."),
    "describe": LazyCommand("inspect", "Show one group."),
    "rebalance": LazyCommand("inspect", "Request a new plan for a group."),
    "plan": LazyCommand("operate", "Say what a new plan would change."),
    "diff": LazyCommand("operate", "List the moves between two plans."),
    "apply": LazyCommand("operate", "Apply a saved plan."),
    "approve": LazyCommand("operate", "Approve a plan that waits."),
    "rollback": LazyCommand("operate", "Go back to an earlier plan."),
    "pause": LazyCommand("operate", "Pause a group or all."),
    "resume": LazyCommand("operate", "Resume a group or all."),
    "pin": LazyCommand("operate", "Pin a partition to a member."),
    "unpin": LazyCommand("operate", "Release a pin."),
    "drain": LazyCommand("operate", "Drain a member or a rack."),
    "undrain": LazyCommand("operate", "End the drain of a member or a rack."),
    "strategy": LazyCommand("operate", "Set the strategy of a group."),
    "decisions": LazyCommand("operate", "List decisions and orders."),
    "replay": LazyCommand("operate", "Compute a past plan again."),
    "config": LazyCommand("configure", "Check or show the settings."),
    "dead-letters": LazyCommand("inspect", "List records that could not be read."),
    "record": LazyCommand("inspect", "Record lag samples for a simulation."),
    "acls": LazyCommand("access", "Print the ACLs that each role needs."),
    "assign": LazyCommand("plan", "Solve assignment problems."),
    "compare": LazyCommand("plan", "Compare strategies side by side."),
    "explain": LazyCommand("plan", "Explain who owns a partition, and why."),
    "simulate": LazyCommand("plan", "Simulate a day under several strategies."),
}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command runs or its help is requested.

    A `LevelwindError` ends the process with the error's text and exit code, Ctrl-C with 130.
    """

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is no such command."""
        del ctx
        if (lazy := COMMANDS.get(cmd_name)) is None:
            return None
        module = import_module(f"levelwind.daemon.cli.{lazy.module}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        command.short_help = lazy.short_help
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any of them."""
        names = self.list_commands(ctx)
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].short_help) for name in names])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the named command."""
        # Otherwise importing NumPy starts a BLAS thread for each core, which costs 50 ms of CPU
        # with two cores; levelwind's matrix products are too small to gain from threads.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # A name, an arrow or a dash that the terminal's encoding does not have is an escape there,
        # as standard error does it anyway; otherwise it would end the command with a traceback.
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except LevelwindError as error:
            echo(f"levelwind: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(130)


@click.group(
    cls=LazyGroup,
    commands={name: click.Command(name) for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="levelwind", prog_name="levelwind")
def main() -> None:
    """Plan the partition assignments of Kafka consumer groups by lag and rack."""


if __name__ == "__main__":
    main()
