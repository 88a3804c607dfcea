"""States of topics in Spark's store: what Spark's own client asks for, many at a time."""

import pickle
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import read_int, write_int
from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import MapState
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

from levelwind.streaming.spark.schemas import STATE, TOPIC_NAME
from levelwind.streaming.spark.stored_topics import MOST_QUESTIONS, ROUND_BYTES, StoredTopics

KEYS = 3
"""Keys of an answer."""


class StateServer:
    """Stand-in of Spark's server of states: it answers one request after the other."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.requests: list[bytes] = []
        self.unsent: list[bytes] = []
        """Keys that an iterator has not been sent yet."""
        self.fails = False

    def serve(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            while stream.peek(1):
                assert read_int(stream) == 0
                request = stream.read(read_int(stream))
                self.requests.append(request)
                content = self.answer(request).SerializeToString()
                write_int(len(content), stream)
                stream.write(content)
                stream.flush()

    def answer(self, request: bytes) -> Any:
        """The answer to a request, as Spark's server gives it."""
        variable = messages.StateRequest.FromString(request).stateVariableRequest
        call = variable.mapStateCall
        assert call.stateName == "topics"
        if self.fails:
            return messages.StateResponse(statusCode=1, errorMessage="no store")
        match call.WhichOneof("method"):
            case "getValue":
                value = self.values.get(call.getValue.userKey, b"")
                return messages.StateResponse(statusCode=0, value=value)
            case "updateValue":
                self.values[call.updateValue.userKey] = call.updateValue.value
            case "removeKey":
                self.values.pop(call.removeKey.userKey, None)
            case "keys":
                return self.keys()
        return messages.StateResponse(statusCode=0)

    def keys(self) -> Any:
        """The answer to the next question for keys: some of them, or that there are none."""
        if not self.values:
            return messages.StateResponseWithMapKeysOrValues(statusCode=1)
        left = self.unsent or list(self.values)
        some, self.unsent = left[:KEYS], left[KEYS:]
        return messages.StateResponseWithMapKeysOrValues(
            statusCode=0, value=some, requireNextFetch=bool(self.unsent)
        )


class CountedRounds(StoredTopics):
    """Stored topics that note how many questions were sent at a time."""

    def __init__(self, values: Any) -> None:
        super().__init__(values)
        self.rounds: list[int] = []

    def _answers(self, requests: Iterable[bytes]) -> list[bytes]:
        sent = list(requests)
        self.rounds.append(len(sent))
        return super()._answers(sent)


@contextmanager
def served(server: StateServer) -> Iterator[MapState]:
    """Spark's handle of a map of topics that a server has."""
    with socket.create_server(("localhost", 0)) as listener:
        thread = threading.Thread(target=server.serve, args=[listener])
        thread.start()
        client = StatefulProcessorApiClient(listener.getsockname()[1], TOPIC_NAME)
        try:
            yield MapState(MapStateClient(client, TOPIC_NAME, STATE), "topics")
        finally:
            client._client_socket.shutdown(socket.SHUT_RDWR)
            thread.join()
            client.sockfile.close()
            client._client_socket.close()


def test_it_asks_what_sparks_client_asks() -> None:
    own, sparks = StateServer(), StateServer()
    with served(own) as values:
        states = StoredTopics(values)
        assert list(states.load_all(["a", "ü"])) == [None, None]
        states.store_all({"a": b"\x00\xff", "ü": b"", "b": None})
        assert list(states.load_all(["a", "ü", "b"])) == [b"\x00\xff", b"", None]
    with served(sparks) as values:
        for topic in ("a", "ü"):
            assert values.getValue((topic,)) is None
        values.updateValue(("a",), (b"\x00\xff",))
        values.updateValue(("ü",), (b"",))
        values.removeKey(("b",))
        for topic in ("a", "ü", "b"):
            values.getValue((topic,))
    assert own.requests == sparks.requests
    assert own.values == sparks.values


@pytest.mark.parametrize("count", [0, 1, KEYS, 4 * KEYS + 1])
def test_it_knows_the_topics_of_all_states(count: int) -> None:
    topics = {f"t{number}" for number in range(count)}
    with served(StateServer()) as values:
        states = StoredTopics(values)
        states.store_all(dict.fromkeys(topics, b"s"))
        assert sorted(states.names()) == sorted(topics)


def test_many_large_states_come_in_rounds_and_others_are_stored_between_them() -> None:
    server = StateServer()
    topics = [f"t{number}" for number in range(3 * MOST_QUESTIONS)]
    large = bytes(ROUND_BYTES // 4)
    with served(server) as values:
        states = StoredTopics(values)
        states.store_all(dict.fromkeys(topics, large))
        ahead, stored = [], len(server.requests)
        loading = states.load_all(topics)
        for loaded, (topic, value) in enumerate(zip(topics, loading, strict=True), 1):
            assert value == large
            ahead.append(len(server.requests) - stored - loaded)
            stored += 1
            states.store_all({topic: topic.encode()})
        assert max(ahead) < ROUND_BYTES // len(large)
        assert list(states.load_all(topics)) == [topic.encode() for topic in topics]


def test_after_a_large_state_fewer_are_asked_for_at_a_time_whatever_follows() -> None:
    topics = [f"t{number}" for number in range(6 * MOST_QUESTIONS)]
    large = bytes(ROUND_BYTES // 4)
    server = StateServer()
    with served(server) as values:
        states = CountedRounds(values)
        # A large one, more small ones than two rounds have, and large ones again.
        stored = {t: b"" if 0 < n < 3 * MOST_QUESTIONS else large for n, t in enumerate(topics)}
        states.store_all(stored)
        states.rounds.clear()
        assert list(states.load_all(topics)) == list(stored.values())
    assert max(states.rounds) < ROUND_BYTES // len(large)


@pytest.mark.parametrize(
    ("version", "most"),
    [
        ("4.2.0", 1),
        ("4.2.0.dev1", 1),
        ("4.1.12", 1),
        ("4.2.1", MOST_QUESTIONS),
        ("4.10.0", MOST_QUESTIONS),
        ("5.0.0.dev0", MOST_QUESTIONS),
        ("", MOST_QUESTIONS),
        ("unknown", MOST_QUESTIONS),
    ],
)
def test_a_server_that_reads_a_part_of_a_question_is_asked_for_one_state_at_a_time(
    monkeypatch: pytest.MonkeyPatch, version: str, most: int
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    server = StateServer()
    topics = [f"t{number}" for number in range(2 * MOST_QUESTIONS)]
    with served(server) as values:
        states = CountedRounds(values)
        states.store_all(dict.fromkeys(topics, b"s"))
        assert list(states.load_all(topics)) == [b"s"] * len(topics)
    assert max(states.rounds) == most


def test_spark_may_give_a_state_as_an_array_of_bytes() -> None:
    server = StateServer()
    server.values[pickle.dumps(("a",), protocol=5)] = pickle.dumps((bytearray(b"s"),), protocol=5)
    with served(server) as values:
        (state,) = StoredTopics(values).load_all(["a"])
    assert type(state) is bytes
    assert state == b"s"


def test_an_error_of_the_store_ends_the_task() -> None:
    server = StateServer()
    server.fails = True
    with served(server) as values, pytest.raises(PySparkRuntimeError, match="no store"):
        StoredTopics(values).store_all({"a": b"s"})
