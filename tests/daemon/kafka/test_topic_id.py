"""Ids of topics in descriptions, whose memory confluent-kafka forgets."""

import ctypes
import sys
from types import SimpleNamespace

import pytest
from confluent_kafka import Uuid

from levelwind.daemon.kafka.clients import topic_id


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_reference_that_the_client_forgot_is_given_up_and_no_other(forgotten):
    described = SimpleNamespace(topic_id=Uuid(1, 2))
    owned = sys.getrefcount(described.topic_id)
    if forgotten:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(described.topic_id))
    read = [topic_id(described), topic_id(described)]
    left = sys.getrefcount(described.topic_id)
    assert (left, read) == (owned, [str(Uuid(1, 2))] * 2)
