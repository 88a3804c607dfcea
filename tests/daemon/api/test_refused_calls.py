"""Calls of the API that get no thread: they are not made later."""

import asyncio
import json

import pytest

from levelwind.daemon.api import operating_routes
from levelwind.daemon.api.decision_follower import DecisionFollower
from levelwind.daemon.config.settings import Settings
from levelwind.daemon.errors import NotFoundError
from levelwind_testing.page.api_client import TOKEN, ApiClient, wait_until_served
from levelwind_testing.page.scripted_groups import small_installation
from levelwind_testing.page.served_page import ServedPage, write_tokens
from levelwind_testing.refused_threads import REFUSAL, refused_threads

THREADS = ("AnyIO worker thread", "asyncio")
"""Names of the threads that an event loop's calls may get."""


def test_an_order_is_carried_out_as_often_as_it_was_answered(tmp_path, monkeypatch):
    """One that was refused was carried out with the next."""
    given = []

    def act(_settings, order, *_args, **_options):
        given.append(order.group)
        raise NotFoundError("there is no such group")

    monkeypatch.setattr(operating_routes, "act", act)
    served = ServedPage(small_installation(), token_file=write_tokens(tmp_path, bot=TOKEN))
    try:
        client = ApiClient(served.url)
        wait_until_served(client)

        def order(group):
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
            body = json.dumps({"action": "pause", "group": group, "execute": True}).encode()
            answer = client.request("/api/v1/levers", method="POST", headers=headers, body=body)
            return answer.status

        with refused_threads(*THREADS):
            first = order("first")
        answers = {"first": first, "second": order("second")}
    finally:
        served.close()
    assert given == [group for group, status in answers.items() if status == 404]


def test_the_audit_trail_is_read_once_after_a_start_that_got_no_thread(monkeypatch):
    """Both starts were made, of which one read on for good."""
    decisions, starts = DecisionFollower(Settings()), []

    def start():
        starts.append("start")
        decisions._caught_up.set()

    async def ask():
        with refused_threads(*THREADS), pytest.raises(RuntimeError, match=REFUSAL):
            await decisions.ready()
        await decisions.ready()

    monkeypatch.setattr(decisions, "_start", start)
    asyncio.run(ask())
    assert starts == ["start"]
