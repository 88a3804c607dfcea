"""`levelwind cluster`: an embedded cluster that stands until Ctrl-C."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from rich.console import Console

from daemon.errors import ClusterUnavailableError
from daemon.paths import ensure_writable
from daemon.shutdown import stop_on_signals
from deploy.cluster import Cluster
from deploy.errors import SetupError

if TYPE_CHECKING:
    from pathlib import Path


def start_cluster(
    console: Console, brokers: int, racks: tuple[str, ...], directory: Path
) -> Cluster:
    """Start brokers, or find the ones of an earlier start again, and show what one waits for.

    Raises:
        ConfigurationError: nothing can be written in the directory.
        ClusterUnavailableError: they cannot be started here; says why.
    """
    ensure_writable(directory, "--directory")
    waiting = console.status("starting the cluster")
    with waiting:
        try:
            return Cluster.start(brokers, racks=racks, directory=directory, progress=waiting.update)
        except SetupError as error:
            raise ClusterUnavailableError(str(error)) from error


def serve_cluster(brokers: int, racks: tuple[str, ...], directory: Path, *, as_json: bool) -> None:
    """Start a cluster, say where it is, and keep it until SIGINT or SIGTERM."""
    with (
        stop_on_signals() as stop,
        start_cluster(Console(stderr=True), brokers, racks, directory) as cluster,
    ):
        stop.polled = True
        nodes = [
            {"id": node.id, "rack": node.rack, "address": node.address} for node in cluster.nodes
        ]
        if as_json:
            click.echo(json.dumps({"bootstrap": cluster.bootstrap, "brokers": nodes}))
        else:
            click.echo(f"bootstrap  {cluster.bootstrap}")
            for node in nodes:
                click.echo(f"broker {node['id']}   {node['address']}  rack {node['rack']}")
            click.echo("Ctrl-C stops it; its data stays in " + str(directory), err=True)
        while not stop.wait(1):
            if dead := {node.id for node in cluster.nodes} - cluster.running:
                raise ClusterUnavailableError(
                    f"broker {min(dead)} ended by itself; see {cluster.log(min(dead))}"
                )
