"""The examples of `ManagedConsumer` in docs/clients.md run as they stand, on real brokers."""

import re
from pathlib import Path

import pytest

from levelwind_testing.kafka.managed_consumers import produce, spread

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[4] / "docs" / "clients.md"
EXAMPLES = [
    example
    for example in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    if "ManagedConsumer" in example
]


class EnoughError(Exception):
    """An example got a record."""


@pytest.mark.parametrize("number", range(4))
def test_an_example_gets_a_record(cluster, topic, plan, number):
    assert len(EXAMPLES) == 4
    planner = plan(spread(topic))
    produce(cluster, topic, [(0, "paid")])
    text = (
        EXAMPLES[number]
        .replace("kafka-1:9092", cluster.bootstrap)
        .replace('"orders"', f'"{topic}"')
        .replace('"^orders"', f'"^{topic}"')
        .replace(
            'group="billing"',
            f'group="{planner.group}", prefix="{planner.topics.prefix}", '
            "timers=__import__('levelwind').assignors.handover.timers.Timers().scaled(0.25)",
        )
    )
    got = []

    def process(message):
        got.append(message.value())
        raise EnoughError

    with pytest.raises(EnoughError):
        exec(compile(text, str(PAGE), "exec"), {"process": process, "__name__": "example"})  # noqa: S102 - the page's own code
    assert got == [b"paid"]
