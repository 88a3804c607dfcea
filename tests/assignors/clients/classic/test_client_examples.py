"""The examples of docs/clients.md run as they stand, on real brokers."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from levelwind.assignors.strategies.vote import InconsistentGroupProtocolError
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.waiting import wait_until

pytest.importorskip("kafka", reason="an extra that is not installed")
pytest.importorskip("aiokafka", reason="an extra that is not installed")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]

PAGE = Path(__file__).parents[4] / "docs" / "clients.md"
EXAMPLES = [
    example
    for example in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    if "ManagedConsumer" not in example
]


class EnoughError(Exception):
    """An example got a record."""


def run(example, cluster, topic, group):
    """Run an example on the shared brokers until it processes a record."""
    text = (
        example.replace("kafka-1:9092", cluster.bootstrap)
        .replace('"orders"', f'"{topic}"')
        .replace('"billing"', f'"{group}"')
    )
    got = []

    def process(message):
        got.append(message.value)
        raise EnoughError

    namespace = {"process": process, "__name__": "example"}
    try:
        exec(compile(text, str(PAGE), "exec"), namespace)  # noqa: S102 - the page's own code
    except EnoughError:
        pass
    finally:
        if (consumer := namespace.get("consumer")) is not None:
            consumer.close()
        if (plans := namespace.get("plans")) is not None:
            plans.close()
    return got


@pytest.fixture
def topic(cluster, fresh):
    name = fresh("examples")
    create_topics({"bootstrap.servers": cluster.bootstrap}, NewTopic(name, 3, 1))
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for partition in range(3):
        producer.produce(name, b"paid", partition=partition)
    assert producer.flush(30) == 0
    return name


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_gets_a_record(cluster, topic, fresh, number):
    assert run(EXAMPLES[number], cluster, topic, fresh("billing")) == [b"paid"]


def test_the_example_of_a_refused_member_says_what_the_group_goes_by(cluster, topic, fresh):
    group = fresh("billing")
    kafka = pytest.importorskip("kafka")
    other = kafka.KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap.split(","), group_id=group, client_id="other"
    )
    with other:
        wait_until("assignment", lambda: other.poll(timeout_ms=1000) or other.assignment(), pause=0)
        refused = next(example for example in EXAMPLES if "no_common_protocol" in example)
        with pytest.raises(InconsistentGroupProtocolError, match=r"\(other\) go by 'range'"):
            run(refused, cluster, topic, group)
