"""Watch over levelwind's topics: notices when one was deleted or created again.

A client that follows a topic does not: it waits for a deleted topic for ever, and goes on in a new
one of the same name as if that were the old one.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka import clients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka.admin import AdminClient

INTERVAL_SECONDS = 2.0
"""Pause between two checks; each is one request."""

STOP_SECONDS = 1.0
"""Longest wait for the thread at the end: a question that hangs takes several seconds."""

MISSING_CHECKS = 2
"""Checks in a row that must miss a topic: a broker may be late to know of a topic."""


def topic_ids(client: AdminClient, names: Iterable[str], timeout: float) -> dict[str, str]:
    """Return the ids of topics, by name; a topic that does not exist is left out.

    Raises:
        ClusterUnavailableError: no answer in time, or no right to describe a topic.
    """
    ids: dict[str, str] = {}
    try:
        answers = client.describe_topics(TopicCollection(list(names)), request_timeout=timeout)
        for name, answer in answers.items():
            try:
                ids[name] = clients.topic_id(answer.result())
            except KafkaException as exception:
                if clients.kafka_error(exception).code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
    except KafkaException as exception:
        raise ClusterUnavailableError(
            f"the topics' ids are not known: {clients.kafka_error(exception).str()}"
        ) from exception
    return ids


class TopicWatch:
    """A thread that compares the ids of topics with those that they had at its start."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        names: Iterable[str],
        on_replaced: Callable[[tuple[str, ...]], None],
        *,
        interval: float = INTERVAL_SECONDS,
        timeout: float = 5.0,
    ) -> None:
        """Make a watch; `start` begins it.

        Args:
            client_config: the clients' configuration.
            names: the topics, which exist.
            on_replaced: called once, in the thread, with the topics that are gone or were created
                again; the watch is over then.
            interval: seconds between two checks.
            timeout: seconds until a check without an answer is given up.
        """
        self._client_config = client_config
        self._client = clients.admin(client_config)
        self._names = tuple(names)
        self._on_replaced = on_replaced
        self._interval = interval
        self._timeout = timeout
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-watch", daemon=True)
        self._ids: Mapping[str, str] = {}
        self._missed = dict.fromkeys(self._names, 0)

    def start(self, timeout: float) -> None:
        """Note the ids that the topics have, and watch them in the background.

        Args:
            timeout: seconds until a first check without an answer fails.

        Raises:
            ClusterUnavailableError: no answer in time.
        """
        self._ids = topic_ids(self._client, self._names, timeout)
        self._thread.start()

    def stop(self) -> None:
        """End the watch; returns when its thread has ended, or has taken `STOP_SECONDS`.

        A thread that still waits for an answer then reports nothing and asks nothing more.
        """
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            self._client.poll(0)  # delivers librdkafka's log lines
            try:
                ids = topic_ids(self._client, self._names, self._timeout)
            except ClusterUnavailableError:  # whoever follows the topics logs an outage
                if not self._stopping.is_set():
                    self._look_for_a_controller()
                continue
            if (replaced := self._replaced(ids)) and not self._stopping.is_set():
                self._on_replaced(replaced)
                return

    def _look_for_a_controller(self) -> None:
        """Let the client read anew which broker it is to ask.

        librdkafka sends these questions to the broker that its metadata names as the controller.
        While that broker is dead it reconnects without a pause, with more than a core of CPU, and
        its next reading of the metadata may be minutes away.
        """
        with suppress(ClusterUnavailableError):
            clients.list_topics(self._client, self._client_config, self._timeout)

    def _replaced(self, ids: Mapping[str, str]) -> tuple[str, ...]:
        for name in self._names:
            self._missed[name] = 0 if name in ids else self._missed[name] + 1
        return tuple(
            name
            for name in self._names
            if self._missed[name] >= MISSING_CHECKS
            or (name in ids and ids[name] != self._ids.get(name, ids[name]))
        )
