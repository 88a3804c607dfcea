"""The connection's settings, which are librdkafka's."""

import ssl

import pytest

from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.client_security import client_security

SASL = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": "secret"}


def test_without_settings_nothing_is_encrypted():
    security = client_security({"bootstrap.servers": "a:1", "client.id": "me"})
    assert (security.tls, security.credentials) == (None, None)


def test_tls_verifies_the_broker_and_its_name_unless_it_is_told_not_to():
    strict = client_security({"security.protocol": "SSL"}).tls
    assert (strict.check_hostname, strict.verify_mode) == (True, ssl.CERT_REQUIRED)
    named = {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}
    assert not client_security(named).tls.check_hostname
    lax = {"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}
    assert client_security(lax).tls.verify_mode == ssl.CERT_NONE


def test_certificates_are_checked_as_strictly_as_librdkafka_does(monkeypatch):
    made = ssl.create_default_context

    def strict(**options):
        """As Python makes them from 3.13 on."""
        context = made(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    context = client_security({"security.protocol": "ssl"}).tls
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_sasl_needs_a_known_mechanism_a_name_and_a_password_and_shows_no_secret():
    security = client_security({"security.protocol": "sasl_ssl", **SASL})
    assert security.tls is not None
    assert security.credentials.mechanism == "SCRAM-SHA-512"
    assert "secret" not in repr(security)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"security.protocol": "quic"}, "kafka.security.protocol"),
        ({"security.protocol": "sasl_ssl"}, "do not know GSSAPI"),
        (
            {"security.protocol": "sasl_ssl", **SASL, "sasl.password": ""},
            "kafka.sasl.password: is missing",
        ),
        ({"ssl.keystore.location": "k.p12"}, "kafka.ssl.keystore.location"),
        ({"sasl.oauthbearer.config": "x"}, "kafka.sasl.oauthbearer.config"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere.pem"}, "certificates"),
    ],
)
def test_what_it_does_not_know_is_refused_by_name(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        client_security(settings)


def test_addresses_of_brokers():
    assert addresses("a:1, [::1]:2,b,PLAINTEXT://c:3") == (
        ("a", 1),
        ("::1", 2),
        ("b", 9092),
        ("c", 3),
    )
    with pytest.raises(ConfigurationError, match="bootstrap"):
        addresses("a:port")
