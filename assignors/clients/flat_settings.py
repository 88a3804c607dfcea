"""Settings of confluent-kafka's clients as librdkafka gets them: without a table among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_TOPIC_CONFIG = "default.topic.config"
CALLBACK_SETTINGS = ("error_cb", "logger", "oauth_cb", "on_commit", "stats_cb", "throttle_cb")


def flat_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a client, with those of `default.topic.config` beside the others.

    confluent-kafka merges that table into the settings last of all, so that what it holds would win
    over everything that levelwind reads or sets. What is no table stays, for confluent-kafka to
    refuse. A callback of None is left out: confluent-kafka takes some of them, and refuses others.
    """
    table = config.get(DEFAULT_TOPIC_CONFIG)
    if not isinstance(table, Mapping):
        return _without_none(config)
    both = {**_without_none(config), **_without_none(table)}
    del both[DEFAULT_TOPIC_CONFIG]
    return both


def _without_none(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in config.items()
        if value is not None or name not in CALLBACK_SETTINGS
    }
