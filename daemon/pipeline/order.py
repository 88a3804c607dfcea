"""Parameters that the daemon starts the pipeline's process with: settings and jars."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic validates an order by its annotations

from pydantic import BaseModel, ConfigDict

from levelwind.daemon.config.settings import Settings  # noqa: TC001 - for the same reason


class PipelineOrder(BaseModel):
    """Parameters of the pipeline's process, passed as a JSON file: settings may hold secrets."""

    model_config = ConfigDict(frozen=True)

    settings: Settings
    jars: tuple[Path, ...]
    daemon: str | None = None
    """The daemon whose child the process is; None for an application of its own."""
    record_classes: Path | None = None
    """File that the JVM writes its class-data archive to when the query has caught up; the process
    then ends. None: the JVM uses the archive if there is one, and the query runs on."""
