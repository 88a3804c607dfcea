"""Settings of confluent-kafka's clients as librdkafka gets them: without a table among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_TOPIC_CONFIG = "default.topic.config"


def flat_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a client, with those of `default.topic.config` beside the others.

    confluent-kafka merges that table into the settings last of all, so that what it holds would win
    over everything that levelwind reads or sets. What is no table stays, for confluent-kafka to
    refuse.
    """
    table = config.get(DEFAULT_TOPIC_CONFIG)
    if not isinstance(table, Mapping):
        return dict(config)
    both = {**config, **table}
    del both[DEFAULT_TOPIC_CONFIG]
    return both
