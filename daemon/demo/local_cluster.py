"""`levelwind cluster`: an embedded cluster that runs until Ctrl-C."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from rich.console import Console

from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.paths import ensure_writable
from levelwind.daemon.shutdown import stop_on_signals
from levelwind.deploy.cluster import Cluster
from levelwind.deploy.errors import SetupError

if TYPE_CHECKING:
    from pathlib import Path


def start_cluster(brokers: int, racks: tuple[str, ...], directory: Path) -> Cluster:
    """Start brokers, or recover those of an earlier start, and show the progress.

    Raises:
        ConfigurationError: the directory is not writable.
        ClusterUnavailableError: the brokers cannot be started; the message says why.
    """
    ensure_writable(directory, "--directory")
    waiting = Console(stderr=True).status("starting the cluster")
    with waiting:
        try:
            return Cluster.start(brokers, racks=racks, directory=directory, progress=waiting.update)
        except SetupError as error:
            raise ClusterUnavailableError(str(error)) from error


def serve_cluster(brokers: int, racks: tuple[str, ...], directory: Path, *, as_json: bool) -> None:
    """Start a cluster, print its addresses, and run it until SIGINT or SIGTERM."""
    with (
        stop_on_signals() as stop,
        start_cluster(brokers, racks, directory) as cluster,
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
            click.echo(f"Ctrl-C stops the cluster; its data stays in {directory}", err=True)
        while not stop.wait(1):
            if dead := {node.id for node in cluster.nodes} - cluster.running:
                raise ClusterUnavailableError(
                    f"broker {min(dead)} ended unexpectedly; see {cluster.log(min(dead))}"
                )
