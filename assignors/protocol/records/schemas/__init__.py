"""JSON Schemas of the records, one per kind, for readers in any language.

The schema of the key is at `$defs/key`.
"""

import json
from importlib import resources
from typing import Any


def load(kind: str) -> dict[str, Any]:
    """The schema of a kind of record, named by the `KIND` of its class."""
    document: dict[str, Any] = json.loads(
        (resources.files(__name__) / f"{kind}.json").read_text(encoding="utf-8")
    )
    return document
