"""SASL exchanges, by the examples of their RFCs."""

import pytest

from levelwind.daemon.wire.sasl_exchange import SaslError, exchange, scram

# RFC 7677, section 3.
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
NONCE = f"{CLIENT_NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CHALLENGE = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERIFIER = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def begun(username="user"):
    steps = scram("sha256", username, "pencil", CLIENT_NONCE)
    return steps, next(steps)


def test_the_example_of_rfc_7677():
    steps, first = begun()
    assert first == f"n,,n=user,r={CLIENT_NONCE}".encode()
    assert steps.send(CHALLENGE.encode()) == f"c=biws,r={NONCE},p={PROOF}".encode()
    with pytest.raises(StopIteration):
        steps.send(f"v={VERIFIER}".encode())


def test_a_name_is_escaped():
    _, first = begun("a,b=c")
    assert first == f"n,,n=a=2Cb=3Dc,r={CLIENT_NONCE}".encode()


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff",
        CHALLENGE.replace("4096", "many").encode(),
        CHALLENGE.replace("4096", "2000000000").encode(),
        CHALLENGE.replace("W22Z", "!!!!").encode(),
        CHALLENGE.replace(CLIENT_NONCE, "other").encode(),
    ],
)
def test_a_challenge_that_does_not_fit_ends_the_exchange(challenge):
    steps, _ = begun()
    with pytest.raises(SaslError):
        steps.send(challenge)


def test_a_broker_that_does_not_know_the_password_is_refused():
    steps, _ = begun()
    steps.send(CHALLENGE.encode())
    with pytest.raises(SaslError, match="did not prove"):
        steps.send(f"v={PROOF}".encode())


def test_plain_is_one_token():
    steps = exchange("PLAIN", "user", "pencil")
    assert next(steps) == b"\0user\0pencil"
    with pytest.raises(StopIteration):
        steps.send(b"")
