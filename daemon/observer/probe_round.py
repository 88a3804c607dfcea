"""Rounds of probes: what no list shows is asked for in turns, so that each probe has its share.

A re-created topic of the same layout, a broker's setting, a log's begin: each is asked for once in
so many probes, and which probe it is follows from its name alone, whatever comes and goes. So at
500 brokers no probe asks all of them at once. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

SETTINGS_EVERY = 12
"""Rounds in which each broker is asked once for its settings, which take a restart to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRound:
    """The place of one probe in its round."""

    number: int
    """Number of the probe."""
    every: int
    """Number of probes of a round."""

    @property
    def brokers(self) -> bool:
        """Whether it asks for the racks of the brokers, once a round."""
        return self.number % self.every == 0

    def describes(self, topic: str) -> bool:
        """Whether it is a topic's turn, once a round."""
        return crc32(topic.encode()) % self.every == self.number % self.every

    def settings_of(self, broker: int) -> bool:
        """Whether it is the turn of a broker's settings, once in `SETTINGS_EVERY` rounds."""
        probes = self.every * SETTINGS_EVERY
        return broker % probes == self.number % probes

    def retries(self, broker: int) -> bool:
        """Whether a broker whose settings are unknown is asked again, once a round."""
        return broker % self.every == self.number % self.every
