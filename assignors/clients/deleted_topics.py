"""Setting of librdkafka by which no client makes a deleted topic again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

NEVER_CREATES: Mapping[str, Any] = {"allow.auto.create.topics": False}
"""For producers, and for admin clients, which are producers to librdkafka: brokers that allow it
make a deleted topic again, with one partition and without compaction, when one asks for it."""
