"""Where the query keeps its offsets and state, and whether what is there is ours.

A marker beside the checkpoint tells its shape: the version of our state, the cluster, and what is read. A checkpoint of
another shape, or without a marker, is set aside under a name that says when, and the state is built anew from the
compacted topics: it is wrong to guess at foreign state, and wrong to delete it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STATE_VERSION = 2
"""Counts up whenever rows, states or operators change in a way that an older checkpoint cannot serve."""
MARKER = "shape.json"
QUERY = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a checkpoint must agree on with the query that continues it."""

    cluster_id: str
    prefix: str
    state: int = STATE_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A directory that Spark can go on from."""

    query: Path
    set_aside: Path | None
    """Where the former one went, if it could not be used."""


def prepare(directory: Path, shape: Shape, *, now: str) -> Checkpoint:
    """The checkpoint of this shape in a directory; `now` names what has to be set aside."""
    query, marker = directory / QUERY, directory / MARKER
    directory.mkdir(parents=True, exist_ok=True)
    if query.exists() and _read(marker) == asdict(shape):
        return Checkpoint(query=query, set_aside=None)
    aside = None
    if query.exists():
        aside = _free(directory / f"{QUERY}.set-aside-{now}")
        query.rename(aside)
        if marker.exists():
            marker.rename(aside.with_name(f"{aside.name}.{MARKER}"))
    query.mkdir()
    _write(marker, json.dumps(asdict(shape), sort_keys=True))
    return Checkpoint(query=query, set_aside=aside)


def _free(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _read(marker: Path) -> object:
    try:
        return json.loads(marker.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _write(marker: Path, text: str) -> None:
    draft = marker.with_name(marker.name + ".new")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(marker)
