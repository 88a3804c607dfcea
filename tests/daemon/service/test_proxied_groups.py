"""What the leader proxy of a term is given: published plans, whole, and those in force."""

import pytest

from levelwind.assignors.protocol.records import PlanShard, Tombstone
from levelwind.assignors.protocol.records.cutting import cut
from levelwind.daemon.config.settings import load
from levelwind.daemon.control.members.proxied_members import ProxiedMember
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.proxy.proxy_state import LedMember, Standing
from levelwind.daemon.service import proxied_groups as service
from levelwind.daemon.service.metrics import Metrics
from levelwind.daemon.service.proxied_groups import ProxiedGroups
from levelwind_testing.control.play import Play
from levelwind_testing.records import lag, topic


@pytest.fixture
def play():
    made = Play(strategy="uniform", modes={"g": "proxy"})
    made.start(topic(), lag(0, 0, 0, 0, at=100_000, members=("a", "b"), owner=(0, 0, 0, 1)))
    made.wait(2)
    return made


class Given:
    """Stands where the proxy's thread would be."""

    def __init__(self, *_):
        self.plans, self.running = [], False

    def start(self):
        self.running = True

    def apply(self, group, plan):
        self.plans.append((group, plan))

    def stop(self):
        self.running = False


@pytest.fixture
def proxied(play, monkeypatch):
    monkeypatch.setattr(service, "LeaderProxy", Given)
    settings = load(overrides={"bootstrap": "nowhere:1", "groups": {"g": {"mode": "proxy"}}})
    play.posted = []
    return ProxiedGroups(
        settings, lambda: play.state, Metrics("1", now=lambda: 0.0), play.posted.append
    )


def written(play):
    return [("assignments", record) for record in play.log]


def test_it_is_given_the_plan_in_force_and_every_plan_that_is_published(play, proxied):
    proxied.start()
    ((group, plan),) = proxied._proxy.plans
    assert (group, tuple(plan.epoch)) == ("g", (1, 1))
    assert sorted(plan.assignments) == ["a", "b"]
    proxied.on_published(written(play))
    assert proxied._proxy.plans[-1] == (group, plan)
    proxied.on_published([("assignments", Tombstone(("g", "g")))])
    assert proxied._proxy.plans[-1] == ("g", None)
    proxied.stop()
    assert not proxied._proxy.running


def test_a_plan_without_all_of_its_shards_is_not_given(play, proxied):
    whole = [record for record in play.log if not isinstance(record, PlanShard)]
    proxied.on_published([("assignments", record) for record in whole])
    assert proxied._proxy.plans == []
    (head,) = [record for record in whole if record.key == ("g", "g")]
    assert cut(head) == (head,)


def test_how_it_stands_to_a_group_is_posted_until_the_term_is_over(play, proxied):
    proxied._on_standing("g", Standing.REFUSED, "why")
    proxied._on_standing("g", Standing.ENDED, "")
    assert [(each.standing, each.reason) for each in play.posted] == [("refused", "why")]


def test_the_members_that_it_leads_are_posted(play, proxied):
    proxied._on_members("g", {"a": LedMember(("t",), "r", {"t": (0, 2)})})
    proxied._on_members("g", None)
    member = ProxiedMember(topics=frozenset({"t"}), rack="r", owned=frozenset({("t", 0), ("t", 2)}))
    assert [each.members for each in play.posted] == [{"a": member}, None]


def test_a_connection_that_the_proxy_cannot_make_is_refused(play):
    settings = load(
        overrides={
            "kafka": {"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI"},
            "groups": {"g": {"mode": "proxy"}},
        }
    )
    with pytest.raises(ConfigurationError, match="GSSAPI"):
        ProxiedGroups(settings, lambda: play.state, None, None)
