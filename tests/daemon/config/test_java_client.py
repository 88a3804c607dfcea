"""The Java client's security settings, from librdkafka's."""

import pytest

from levelwind.daemon.config.java_client import java_security
from levelwind.daemon.config.settings import load
from levelwind.daemon.errors import ConfigurationError


def test_without_security_nothing_is_derived():
    assert java_security({"socket.timeout.ms": "1"}, {"fetch.max.bytes": "5"}) == {
        "fetch.max.bytes": "5"
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("scram-sha-512", "scram.ScramLoginModule"),
    ],
)
def test_a_user_name_and_a_password_become_a_login_module(mechanism, module):
    kafka = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": mechanism,
        "sasl.username": 'us"er',
        "sasl.password": "pa\\ss",
        "ssl.ca.location": "/ca.pem",
    }
    assert java_security(kafka, {}) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism.upper(),
        "sasl.jaas.config": (
            f"org.apache.kafka.common.security.{module} required"
            ' username="us\\"er" password="pa\\\\ss";'
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
    }


def test_certificates_in_files_become_a_store_in_pem(tmp_path):
    (tmp_path / "cert.pem").write_text("CERT")
    (tmp_path / "key.pem").write_text("KEY")
    kafka = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(tmp_path / "cert.pem"),
        "ssl.key.location": str(tmp_path / "key.pem"),
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert java_security(kafka, {}) == {
        "security.protocol": "SSL",
        "ssl.key.password": "secret",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CERT",
        "ssl.keystore.key": "KEY",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_what_is_given_wins_and_replaces_a_whole_store():
    kafka = {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}
    given = {"ssl.truststore.location": "/trust.jks", "ssl.truststore.password": "p"}
    assert java_security(kafka, given) == {"security.protocol": "SSL", **given}


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER"])
def test_what_is_not_mechanical_is_to_be_given(mechanism):
    kafka = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": mechanism}
    with pytest.raises(ConfigurationError, match=r"give the Java client's sasl\.jaas\.config"):
        java_security(kafka, {})
    given = {"sasl.jaas.config": "x required;"}
    assert java_security(kafka, given)["sasl.jaas.config"] == "x required;"


def test_a_client_that_verifies_nothing_has_no_counterpart():
    kafka = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}
    with pytest.raises(ConfigurationError, match="always verifies"):
        java_security(kafka, {})


def test_a_secret_is_read_from_its_file_for_both_clients(tmp_path):
    (tmp_path / "password").write_text("s3cret\n")
    settings = load(
        None,
        {
            "kafka": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "u",
                "sasl.password_file": str(tmp_path / "password"),
            }
        },
    )
    assert settings.client()["sasl.password"] == "s3cret"
    assert "sasl.password_file" not in settings.client()
    assert 'password="s3cret"' in settings.pipeline_settings(()).kafka["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"sasl.password_file": "/none"}, "No such file"),
        ({"sasl.password_file": "/x", "sasl.password": "y"}, "leave one out"),
    ],
)
def test_a_file_that_is_not_there_and_a_value_that_is_given_twice_are_refused(table, text):
    with pytest.raises(ConfigurationError, match=text):
        load(None, {"kafka": table}).client()


def test_a_certificate_that_is_no_text_is_refused_by_its_file(tmp_path):
    (tmp_path / "ca.crt").write_bytes(b"\x30\x82\xff")
    with pytest.raises(ConfigurationError, match=r"kafka\.ssl\.ca\.location: .*ca\.crt"):
        java_security({"security.protocol": "SSL", "ssl.ca.location": str(tmp_path)}, {})
