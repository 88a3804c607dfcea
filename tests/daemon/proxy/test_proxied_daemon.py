"""A real daemon leads a group of unmodified consumers, is killed, and nobody loses anything."""

import pytest

from levelwind_testing.processes.proxied_stage import ProxiedStage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def stage(client_config, kafka, fresh, tmp_path):
    made = ProxiedStage(client_config, kafka, fresh, tmp_path)
    try:
        yield made
    finally:
        made.stop()


def test_a_daemon_leads_a_group_and_its_death_stops_nobody(stage):
    stage.lead_two()
    stage.level()
    proxied = stage.wait(lambda: stage.describe()["proxy"], "standing")
    assert proxied["standing"] == "leading"

    # The daemon dies: the members go on as they are, and then by their own assignor.
    held = stage.held()
    stage.daemon.kill()
    stage.read_on()
    assert stage.held() == held
    stage.join("c")
    stage.wait(stage.settled, "group with a third member")
    stage.leave("a")
    stage.wait(stage.settled, "group without the first member")
    assert stage.daemon.logged("proxy.left") == stage.daemon.logged("proxy.failed") == []
    stage.nothing_was_lost_or_shared()
