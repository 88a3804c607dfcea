"""A real daemon leads a group of unmodified consumers, is killed, and nobody loses anything."""

import pytest

from levelwind_testing.processes.proxied_stage import ProxiedStage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SETTINGS = ("proxy.session_timeout=20",)
"""On a busy machine, too, the next daemon leads within the session of the former one's proxy."""


@pytest.fixture
def stage(client_config, kafka, fresh, tmp_path):
    made = ProxiedStage(client_config, kafka, fresh, tmp_path, settings=SETTINGS)
    try:
        yield made
    finally:
        made.stop()


def test_the_lead_outlives_daemons_that_are_killed_stopped_or_replaced(stage):
    stage.lead_two()
    stage.level()
    proxied = stage.wait(lambda: stage.describe()["proxy"], "standing")
    assert proxied["standing"] == "leading"
    members = stage.members.copy()

    # Killed, and started again: the members go on as they are, and are led again.
    held = stage.held()
    stage.daemon.kill()
    stage.read_on()
    assert stage.held() == held
    stage.start_daemon()
    stage.wait(stage.leads, "lead of the restarted daemon")

    # Killed, and taken over by the one that stands by.
    stage.start_stand_by()
    stage.daemons[-2].kill()
    stage.wait(stage.leads, "lead after a take-over")
    assert stage.is_leveled()

    # Stopped in good order, as for an upgrade.
    stage.start_stand_by()
    assert stage.daemons[-2].stop() == 0
    stage.wait(stage.leads, "lead of the upgraded daemon")
    assert stage.is_leveled()
    assert stage.members == members
    for daemon in stage.daemons:
        assert daemon.logged("proxy.left") == daemon.logged("proxy.failed") == []
    for daemon in stage.daemons[1:]:
        assert daemon.logged("proxy.waiting_for_lead") == []

    # Stopped for good: the group goes on by its own assignor once the session is over.
    assert stage.daemon.stop() == 0
    stage.join("c")
    stage.wait(stage.settled, "group with a third member")
    stage.leave("a")
    stage.wait(stage.settled, "group without the first member")
    stage.nothing_was_lost_or_shared()
