"""States of topics in Spark's store, with many questions on their way at a time.

Spark's client sends a question, and waits for the answer before the next: for each value two
system calls, and two switches between the JVM and Python. Its server answers one question after the
other, in their order, so that many may be sent before the first answer is read. The messages are
those of Spark's client.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import write_int
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MESSAGE_VERSION = 0
"""The version of Spark's messages."""
MOST_QUESTIONS = 16
"""Questions that may wait for an answer: more save no CPU, and their answers are in memory at once.

The names of as many topics, or as many answers without a value, fit the buffer of any socket:
neither side waits for the other to read."""
FIRST_WHOLE_READS = (4, 2, 1)
"""The first version of Spark whose server reads a question whole.

The server of 4.2.0 takes what has arrived of it, and a buffer that Python sends may end within."""
ROUND_BYTES = 2**19
"""The size of values that are asked for together, judged by the largest state so far."""


def most_questions(version: str) -> int:
    """The number of questions that may wait for an answer from Spark of a version.

    A version that cannot be read counts as a new one.
    """
    found = re.match(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", version)
    is_old = found is not None and tuple(map(int, found.groups())) < FIRST_WHOLE_READS
    return 1 if is_old else MOST_QUESTIONS


class StoredTopics:
    """The states of a bucket's topics, each a value of a map in Spark's store."""

    def __init__(self, values: Any) -> None:
        """Use a map.

        Args:
            values: pyspark's `MapState`, from a topic's name to its packed state.
        """
        self._values = values
        # pyspark has no other access to them.
        self._name = values._stateName  # noqa: SLF001
        self._client = values._mapStateClient._stateful_processor_api_client  # noqa: SLF001
        self._dumps = self._client.pickleSer.dumps
        self._most = most_questions(pyspark.__version__)

    def names(self) -> list[str]:
        """The topics of all states."""
        return list(chain.from_iterable(self._values.keys()))

    def load_all(self, topics: Sequence[str]) -> Iterator[bytes | None]:
        """The packed state of each topic; None: there is none.

        States may be stored between two of them.
        """
        first, count, largest = 0, 1, 1
        while first < len(topics):
            some = topics[first : first + count]
            first += len(some)
            answers = self._answers([self._question("getValue", topic) for topic in some])
            for answer in answers:
                largest = max(largest, len(answer))
                # Spark hands bytes out as a bytearray.
                yield bytes(self._client.pickleSer.loads(answer)[0]) if answer else None
            count = min(max(ROUND_BYTES // largest, 1), self._most)

    def store_all(self, states: Mapping[str, bytes | None]) -> None:
        """Keep the packed states of topics; None: keep none."""
        requests: list[bytes] = []
        for topic, value in states.items():
            if value is None:
                requests.append(self._question("removeKey", topic))
            else:
                requests.append(self._question("updateValue", topic, value=self._dumps((value,))))
            if len(requests) == self._most:
                self._answers(requests)
                requests = []
        self._answers(requests)

    def _question(self, call: str, topic: str, **values: bytes) -> bytes:
        """A question about one topic."""
        kind = getattr(messages, f"{call[0].upper()}{call[1:]}")
        of_key = kind(userKey=self._dumps((topic,)), **values)
        of_map = messages.MapStateCall(stateName=self._name, **{call: of_key})
        variable = messages.StateVariableRequest(mapStateCall=of_map)
        request: bytes = messages.StateRequest(stateVariableRequest=variable).SerializeToString()
        return request

    def _answers(self, requests: Iterable[bytes]) -> list[bytes]:
        """Send some questions, at most `most_questions`, and read the values of their answers."""
        sent = 0
        for request in requests:
            write_int(MESSAGE_VERSION, self._client.sockfile)
            write_int(len(request), self._client.sockfile)
            self._client.sockfile.write(request)
            sent += 1
        self._client.sockfile.flush()
        answers: list[bytes] = []
        for _ in range(sent):
            status, error, value = self._client._receive_proto_message()  # noqa: SLF001 - as above
            if status:
                raise PySparkRuntimeError(f"a topic's state: {error}")
            answers.append(value)
        return answers
