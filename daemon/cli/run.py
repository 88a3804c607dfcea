"""Commands that run until they are stopped: the daemon, the pipeline, local brokers, the demo."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from levelwind.assignors.handover.timers import MAX_TIMER_SECONDS
from levelwind.daemon.cli.options import Figure, format_option, with_settings

if TYPE_CHECKING:
    from levelwind.daemon.cli.options import SettingsSource


@click.command()
@with_settings
@click.option(
    "--log-format",
    type=click.Choice(["auto", "json", "console"]),
    help="Format of the log lines; auto: console on a terminal, else json.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Least severe level that is logged.",
)
def run(source: SettingsSource, log_format: str | None, log_level: str | None) -> None:
    """Run the daemon: the observer, the pipeline and the planner, until it is stopped."""
    # SIGHUP asks a daemon to read its settings again; until it can, the signal waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from levelwind.daemon.api.http_server import HttpServer  # noqa: PLC0415 - see the package
    from levelwind.daemon.service.startup import run as run_daemon  # noqa: PLC0415 - as above
    from levelwind.daemon.telemetry import log_config  # noqa: PLC0415 - see the package

    source = source.naming({"log.format": log_format, "log.level": log_level})
    settings = source.read()
    log_config.configure(level=settings.log.level, form=settings.log.format)
    run_daemon(settings, HttpServer, source.read)


@click.command()
@with_settings
@click.option(
    "--master",
    metavar="URL",
    help="Spark's master: spark://…, k8s://…, yarn or local[N]; overrides `spark.master`.",
)
@click.option(
    "--packages",
    is_flag=True,
    help="Let Spark fetch the jars by their coordinates, instead of sending them from here.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Environment archive of `make dist` that the executors run.",
)
def pipeline(
    source: SettingsSource, master: str | None, packages: bool, archive: Path | None
) -> None:
    """Run the pipeline by itself, on this machine or on a Spark cluster, until it is stopped.

    The daemon beside it needs the setting pipeline.run = "elsewhere". spark-submit runs the same
    with the file daemon/levelwind_pipeline.py.
    """
    from levelwind.daemon.pipeline.standalone import Shipping  # noqa: PLC0415 - see the package
    from levelwind.daemon.pipeline.standalone import run as run_pipeline  # noqa: PLC0415 - as above
    from levelwind.daemon.telemetry import log_config  # noqa: PLC0415 - see the package

    settings = source.read()
    log_config.configure(level=settings.log.level, form=settings.log.format)
    raise SystemExit(
        run_pipeline(settings, Shipping(master=master, packages=packages, archive=archive))
    )


@click.command()
@click.option(
    "--brokers", type=click.IntRange(1, 9), default=3, show_default=True, help="Number of brokers."
)
@click.option(
    "--racks",
    default="a,b,c",
    show_default=True,
    help="Comma-separated racks, assigned to the brokers round-robin.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".levelwind/cluster"),
    show_default=True,
    help="Where the brokers keep their data; a later start recovers the data.",
)
@format_option
def cluster(brokers: int, racks: str, directory: Path, form: str) -> None:
    """Run an embedded Kafka cluster on the loopback interface until Ctrl-C."""
    from levelwind.daemon.demo.local_cluster import serve_cluster  # noqa: PLC0415 - see the package

    serve_cluster(brokers, tuple(racks.split(",")), directory, as_json=form == "json")


@click.command()
@with_settings
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".levelwind/demo"),
    show_default=True,
    help="Where the brokers, the pipeline and the log keep their files.",
)
@click.option(
    "--seconds",
    type=Figure(1, MAX_TIMER_SECONDS),
    help="Stop after this many seconds; by default on Ctrl-C.",
)
@format_option
def demo(source: SettingsSource, directory: Path, seconds: float | None, form: str) -> None:
    """Run a demo: brokers in three racks, a skewed workload, and the daemon that rebalances it."""
    from levelwind.daemon.demo.demo import DEMO_SETTINGS, run_demo  # noqa: PLC0415 - see the package
    from levelwind.daemon.telemetry import log_config  # noqa: PLC0415 - see the package

    # The daemon, a child process, logs to a file; this process prints the narration.
    log_config.configure(level="error")
    pairs = (*DEMO_SETTINGS, f"state_dir={directory / 'state'}", *source.pairs)
    source = source._replace(pairs=pairs)
    run_demo(
        source.read(),
        [
            *(["--config", str(source.config)] if source.config else []),
            *(word for pair in pairs for word in ("--set", pair)),
        ],
        directory=directory,
        embedded="bootstrap" not in source.tree(),
        seconds=seconds,
        as_json=form == "json",
    )
