"""The driver's answers to tasks on other machines."""

import pickle
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from levelwind.deploy.ports import HOST, free_ports
from levelwind.streaming.spark.store import offsets_server
from levelwind.streaming.spark.store.offsets_server import (
    LENGTH,
    QUESTION,
    AskedOffsets,
    OffsetsServer,
)

ENTRIES = {7: b"v1\n{}\n{}", 8: b"x" * 3_000_000}


@pytest.fixture
def asked() -> list[int]:
    return []


@pytest.fixture
def server(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> Iterator[OffsetsServer]:
    monkeypatch.setattr(offsets_server, "PAUSE_SECONDS", 0.0)

    def entry(batch: int) -> bytes | None:
        asked.append(batch)
        return ENTRIES.get(batch)

    server = OffsetsServer(entry, bind=HOST, host=HOST)
    yield server
    server.close()


def test_a_task_is_told_the_entry_of_its_batch_which_is_read_once(
    server: OffsetsServer, asked: list[int]
) -> None:
    log = pickle.loads(pickle.dumps(server.log))  # noqa: S301 - as Spark sends it to the tasks
    assert [log.read(7), log.read(7), log.read(8)] == [ENTRIES[7], ENTRIES[7], ENTRIES[8]]
    assert asked == [7, 8]


def test_a_batch_that_the_driver_does_not_know_is_asked_for_again_and_then_given_up(
    server: OffsetsServer, asked: list[int]
) -> None:
    assert server.log.read(9) is None
    assert asked == [9] * offsets_server.ATTEMPTS


def test_who_lacks_the_key_is_told_nothing(server: OffsetsServer, asked: list[int]) -> None:
    assert replace(server.log, key=b"guessed").read(7) is None
    assert asked == []


def test_a_stranger_at_the_drivers_port_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_server, "PAUSE_SECONDS", 0.0)
    listener = socket.create_server((HOST, 0))

    def lie() -> None:
        for _ in range(offsets_server.ATTEMPTS):
            connection, _ = listener.accept()
            connection.recv(QUESTION.size)
            connection.sendall(LENGTH.pack(2) + b"{}" + bytes(offsets_server.DIGEST_BYTES))
            connection.close()

    liar = threading.Thread(target=lie, daemon=True)
    liar.start()
    assert AskedOffsets(HOST, listener.getsockname()[1], b"key").read(7) is None
    liar.join()
    listener.close()


def test_a_driver_that_is_gone_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_server, "PAUSE_SECONDS", 0.0)
    assert AskedOffsets(HOST, next(free_ports()), b"key").read(7) is None
