"""The JSON Schemas of the records, one a kind, for readers in any language; `$defs/key` is the key's."""

import json
from importlib import resources
from typing import Any


def load(kind: str) -> dict[str, Any]:
    """The schema of a kind of record, named by its class's `KIND`."""
    document: dict[str, Any] = json.loads((resources.files(__name__) / f"{kind}.json").read_text())
    return document
