"""The daemon and its leader proxy as users of brokers with TLS, SCRAM and certificates."""

from functools import partial

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.daemon.proxy.leader_proxy import LeaderProxy
from levelwind.daemon.proxy.settings import ProxySettings
from levelwind_testing.processes.proxied_stage import ProxiedStage
from levelwind_testing.proxied import plan
from levelwind_testing.security.certificates import Authority
from levelwind_testing.security.secure_brokers import secure_brokers
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SESSION_MS = 3000
"""After so long the brokers end a connection with a password that is not authenticated again."""
ENDED_SESSIONS = 3


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    settings = {"connections.max.reauth.ms": str(SESSION_MS)}
    directory = tmp_path_factory.mktemp("secure")
    with secure_brokers(directory, authorize=False, settings=settings) as brokers:
        yield brokers


@pytest.fixture(params=["SCRAM-SHA-512", "certificate"])
def client_config(request, brokers, fresh):
    name = fresh("user")
    user = (
        brokers.certificate_user(name)
        if request.param == "certificate"
        else brokers.scram_user(name, request.param)
    )
    return user.librdkafka


def test_a_daemon_leads_a_group_over_tls(client_config, kafka, fresh, tmp_path):
    stage = ProxiedStage(client_config, kafka, fresh, tmp_path)
    try:
        stage.lead_two()
        stage.level()
        ended = partial(stage.daemon.logged, "proxy.disconnected")
        if "sasl.username" in client_config:
            # The clients authenticate again. The proxy connects anew, and stays the member it was.
            wait_until("ends of sessions", lambda: len(ended()) >= ENDED_SESSIONS)
            stage.level()
        else:
            assert ended() == []
        assert stage.daemon.logged("proxy.left") == []
        stage.nothing_was_lost_or_shared()
    finally:
        stage.stop()


@pytest.mark.parametrize("fault", ["password", "certificate"])
def test_a_proxy_that_is_not_let_in_says_why(brokers, fresh, log, tmp_path, fault):
    config = brokers.scram_user(fresh("user"), "SCRAM-SHA-256").librdkafka
    if fault == "password":
        config["sasl.password"] = "wrong"
    else:
        config["ssl.ca.location"] = str(Authority(tmp_path).certificate)
    settings = ProxySettings(session_timeout=6.0, retry=0.5)
    proxy = LeaderProxy(
        ("group",), config, "proxy", settings, dict, lambda *_: None, lambda *_: None, log
    )
    proxy.start()
    try:
        proxy.apply("group", plan(a=[0]))
        (line, *_) = wait_until("refusal", lambda: log.of("proxy.disconnected"))
        assert ("certificate" if fault == "certificate" else "authenticat") in line["error"].lower()
    finally:
        proxy.stop()


def test_brokers_without_the_authorizer_let_every_user_do_everything(brokers, fresh):
    topic = fresh("orders")
    admin = AdminClient({**brokers.scram_user(fresh("user")).librdkafka, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
