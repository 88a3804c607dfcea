"""What the brokers tell of members, and what is said where they do not."""

from levelwind.daemon.config.settings import load
from levelwind.daemon.inspection.live_members import described_members


def test_brokers_are_asked_at_the_addresses_that_all_clients_of_the_daemon_use(capfd):
    settings = load(None, {"bootstrap": "PLAINTEXT://127.0.0.1:1"})  # nobody listens there
    assert described_members(settings, ["g"]) == {}
    warning = capfd.readouterr().err
    assert "hosts and client ids of 1 groups are not known: g: " in warning
    assert "127.0.0.1:1" in warning
    assert "PLAINTEXT" not in warning
