"""The command line. Results go to standard output, logs and progress to standard error.

Exit codes: 0 done · 1 a bug · 2 wrong usage or settings · 3 the cluster is not available · 4 another planner took over ·
5 the pipeline gave up · 6 not found · 130 interrupted.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import click

from daemon.cli import inspect as asking
from daemon.cli import plan as trying
from daemon.cli import run as running
from daemon.errors import LevelwindError


class Interruptible(click.Group):
    """Ends with the exit code of a `LevelwindError` and its text, and with 130 on Ctrl-C."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except LevelwindError as error:
            click.echo(f"levelwind: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(130)


@click.group(cls=Interruptible, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("levelwind"), prog_name="levelwind")
def main() -> None:
    """Plan Kafka consumer groups by lag and rack, from outside."""


for _command in (
    running.run,
    running.demo,
    running.cluster,
    asking.groups,
    asking.describe,
    asking.rebalance,
    asking.dead_letters,
    asking.record,
    trying.assign,
    trying.compare,
    trying.explain,
    trying.simulate,
):
    main.add_command(_command)


if __name__ == "__main__":
    main()
