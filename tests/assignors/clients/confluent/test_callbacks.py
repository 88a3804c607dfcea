"""Errors of the application's callbacks: they reach the application, and nothing else is lost."""

import asyncio
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer

from levelwind.clients.confluent import (
    AsyncManagedConsumer,
    ManagedConsumer,
    Phase,
    SettingError,
)
from levelwind_testing.kafka.brokerless_member import UNREACHABLE, message
from levelwind_testing.waiting import wait_until

ORDERS = [("orders", 0), ("orders", 1)]


class Failing:
    """A callback that raises while `broken`, and notes its calls."""

    def __init__(self):
        self.broken = False
        self.calls = 0

    def __call__(self, *_args):
        self.calls += 1
        if self.broken:
            raise OSError(28, "No space left on device")


@pytest.fixture
def failing():
    return Failing()


def polled(consumer, errors=None):
    """Poll until the member waits for nothing; return the records, and note errors."""
    records, follower = [], consumer._follower
    for _ in range(6):
        try:
            records += consumer.consume(100, 0)
        except OSError as error:
            errors.append(error)
        follower.step()
        follower.renew()
    return records


ARGUMENTS = ("on_assign", "on_revoke", "on_lost", "journal")
SETTINGS = ("on_commit", "error_cb", "stats_cb", "throttle_cb")


def run_setting(consumer, name):
    """Have librdkafka call a callback of the settings from within its next poll."""
    if name == "on_commit":
        consumer.commit()
    else:
        event = type("Event", (), {"throttle_time": 0.0})()
        consumer._consumer.calls.append(lambda: consumer._consumer.config[name](event))


@pytest.mark.parametrize("name", [*ARGUMENTS, *SETTINGS])
@pytest.mark.parametrize("order", ["grant", "revocation", "loss"])
def test_no_callback_keeps_an_order_from_being_carried_out(make_brokerless, failing, name, order):
    given = {name: failing}
    consumer = make_brokerless(given) if name in SETTINGS else make_brokerless({}, **given)
    follower, errors = consumer._follower, []
    if order == "grant":
        failing.broken = True
    follower.assign({"orders": (0, 1)})
    consumer._consumer.records.extend(message(pair, 0) for pair in ORDERS)
    records = polled(consumer, errors)
    first = follower.incarnation
    failing.broken = True
    if name in SETTINGS:
        run_setting(consumer, name)
    if order == "revocation":
        follower.assign({"orders": (0,)})
    if order == "loss":
        follower.overdue()
    records += polled(consumer, errors)
    failing.broken = False
    records += polled(consumer)

    owned = {"grant": ORDERS, "revocation": ORDERS[:1], "loss": []}[order]
    assert sorted(consumer._consumer.assigned) == sorted(consumer._owned.owned) == owned
    assert follower.announced[-1].owned == ({"orders": tuple(n for _, n in owned)} if owned else {})
    assert not follower.announced[-1].starting
    assert not follower.orders
    assert not follower.lost.is_set()
    assert (follower.incarnation != first) == (order == "loss")
    assert [(each.topic(), each.partition()) for each in records] == ORDERS
    raised = failing.calls and not (order != "grant" and name == "on_assign")
    assert bool(errors) == bool(raised)


@pytest.mark.parametrize("name", SETTINGS)
def test_callbacks_in_a_default_topic_config_are_guarded_as_those_beside_it(
    make_brokerless, failing, name
):
    consumer = make_brokerless({"default.topic.config": {name: failing}})
    assert "default.topic.config" not in consumer._consumer.config
    failing.broken = True
    event = (None, []) if name == "on_commit" else (SimpleNamespace(throttle_time=0.0),)
    consumer._consumer.config[name](*event)
    assert failing.calls == 1
    with pytest.raises(OSError, match="No space left"):
        consumer.poll(0)


def test_the_first_error_comes_before_any_record_and_costs_none(make_brokerless, failing):
    consumer = make_brokerless(journal=failing)
    failing.broken = True
    consumer._follower.assign({"orders": (0, 1)})
    consumer._consumer.records.extend(message(ORDERS[0], offset) for offset in range(3))
    with pytest.raises(OSError, match="No space left"):
        consumer.poll(0)
    assert failing.calls == 2, "each partition was entered"
    failing.broken = False
    assert [consumer.poll(0).offset() for _ in range(3)] == [0, 1, 2]


def test_an_error_of_the_last_callbacks_comes_out_of_close(make_brokerless, failing):
    consumer = make_brokerless({"on_commit": failing})
    consumer._follower.assign({"orders": (0,)})
    consumer._consumer.records.append(message(ORDERS[0], 0))
    polled(consumer)
    consumer.commit()
    failing.broken = True
    with pytest.raises(OSError, match="No space left"):
        consumer.close()
    assert consumer.phase is Phase.LEFT


def test_an_error_of_on_commit_does_not_come_out_of_a_commit_that_was_made(
    make_brokerless, failing
):
    consumer = make_brokerless({"on_commit": failing, "enable.auto.commit": False})
    consumer._follower.assign({"orders": (0,)})
    consumer._consumer.records.append(message(ORDERS[0], 0))
    polled(consumer)
    failing.broken = True
    consumer.commit()
    consumer._owned.serve()
    assert consumer.commit(asynchronous=False) == []
    with pytest.raises(OSError, match="No space left"):
        consumer.poll(0)
    failing.broken = False
    assert consumer.poll(0) is None


def test_an_order_is_answered_even_when_the_process_is_interrupted(make_brokerless, monkeypatch):
    consumer = make_brokerless()
    follower = consumer._follower
    follower.assign({"orders": (0, 1)})
    polled(consumer)

    def interrupted(_entries):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(consumer._owned._journal, "released", interrupted)
        follower.assign({"orders": (0,)})
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(0)
        follower.step()
        assert follower.announced[-1].owned == {"orders": (0,)}
        first = follower.incarnation
        follower.overdue()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(0)
    follower.step()
    assert follower.incarnation != first
    assert consumer.assignment() == []


def test_a_loss_hands_nothing_more_out_though_librdkafka_refuses_to_unassign(
    make_brokerless, monkeypatch
):
    consumer = make_brokerless()
    follower = consumer._follower
    follower.assign({"orders": (0,)})
    polled(consumer)

    def refuse(_partitions):
        raise OSError(5, "librdkafka")

    monkeypatch.setattr(consumer._consumer, "incremental_unassign", refuse)
    follower.overdue()
    errors = []
    consumer._consumer.records.append(message(ORDERS[0], 0))
    assert polled(consumer, errors) == []
    assert len(errors) == 1
    assert consumer.assignment() == []


def test_a_logger_that_raises_ends_no_thread_of_the_hand_over(make_brokerless, failing):
    logger = SimpleNamespace(log=failing)
    consumer = make_brokerless({"logger": logger})
    failing.broken = True
    for settings in (consumer._consumer.config, consumer._follower._settings.reader):
        settings["logger"].log(10, "%s", "text")
        with pytest.raises(OSError, match="No space left"):
            consumer.poll(0)
    failing.broken = False


@pytest.mark.parametrize("name", [*ARGUMENTS, *SETTINGS, "oauth_cb"])
def test_what_cannot_be_called_is_refused_at_once(make_brokerless, name):
    settings, options = ({}, {name: 5}) if name in ARGUMENTS else ({name: 5}, {})
    with pytest.raises(SettingError, match=f"^{name}: expected a function, got 5$"):
        make_brokerless(settings, **options)


@pytest.mark.parametrize("name", [*ARGUMENTS, *SETTINGS, "oauth_cb"])
def test_a_coroutine_function_is_refused_where_nobody_would_await_it(make_brokerless, name):
    async def callback(*_args):
        pass

    settings, options = ({}, {name: callback}) if name in ARGUMENTS else ({name: callback}, {})
    with pytest.raises(SettingError, match=f"^{name}: expected a function, got a coroutine func"):
        make_brokerless(settings, **options)


@pytest.mark.parametrize("name", [*SETTINGS, "oauth_cb", "logger"])
@pytest.mark.parametrize("table", [True, False])
def test_a_callback_of_none_is_as_one_that_was_left_out(name, table):
    given = {"default.topic.config": {name: None}} if table else {name: None}
    consumer = ManagedConsumer({**UNREACHABLE, **given}, group="g", topics=["orders"])
    consumer.close(0)


def test_a_logger_that_cannot_log_is_refused_at_once(make_brokerless):
    with pytest.raises(SettingError, match=r"^logger: expected a logger, got 5$"):
        make_brokerless({"logger": 5})


@pytest.mark.parametrize("name", ["on_assign", "on_revoke", "on_lost"])
def test_the_consumer_of_a_coroutine_refuses_the_same(name):
    async def make():
        AsyncManagedConsumer(UNREACHABLE, group="g", topics=["orders"], **{name: 5})

    with pytest.raises(SettingError, match=f"^{name}: expected a function, got 5$"):
        asyncio.run(make())


@pytest.mark.parametrize("kind", ["function", "coroutine function"])
def test_the_consumer_of_a_coroutine_calls_functions_of_both_kinds(kind):
    called = []

    def function(consumer, partitions):
        called.append((consumer, asyncio.get_running_loop(), partitions))

    async def coroutine(*args):
        function(*args)

    async def work():
        given = function if kind == "function" else coroutine
        settings = {**UNREACHABLE, "bootstrap.servers": "127.0.0.1:1"}
        consumer = AsyncManagedConsumer(settings, group="g", topics=["orders"], on_assign=given)
        call = consumer._consumer._owned._callbacks["on_assign"]
        await asyncio.to_thread(call, ["partition"])
        consumer._consumer._callback_errors.raise_first()
        assert called == [(consumer, asyncio.get_running_loop(), ["partition"])]
        await consumer.close(0)

    asyncio.run(work())


@pytest.fixture
def mock_brokers():
    """Brokers within librdkafka, with 30 records in a topic."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = producer.list_topics(timeout=10).brokers.values()
    for number in range(30):
        producer.produce("orders", partition=0, value=str(number))
    assert producer.flush(10) == 0
    yield ",".join(f"{each.host}:{each.port}" for each in brokers)
    assert len(producer) == 0, "the producer is the brokers, and lives as long as its consumers"


def test_a_callback_that_raises_while_a_batch_is_fetched_costs_no_record(
    mock_brokers, make_brokerless, failing
):
    """librdkafka itself destroys such a batch and goes on behind it."""
    consumer = make_brokerless(
        {
            "bootstrap.servers": mock_brokers,
            "statistics.interval.ms": 10,
            "stats_cb": failing,
        },
        librdkafka=Consumer,
    )
    offsets, errors = [], []

    def read(number):
        consumer._follower.step()
        consumer._follower.renew()
        try:
            offsets.extend(each.offset() for each in consumer.consume(number, 0.1))
        except OSError as error:
            errors.append(error)

    consumer._follower.assign({"orders": (0,)})
    wait_until("a first record", lambda: read(1) or offsets, pause=0)
    failing.broken = True
    wait_until("errors", lambda: read(100) or len(errors) == 5, pause=0)
    failing.broken = False
    wait_until("thirty records", lambda: read(100) or len(offsets) >= 30, pause=0)
    assert offsets == list(range(30))
