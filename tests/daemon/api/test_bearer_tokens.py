"""The file of tokens: who a token belongs to, and what a wrong file says."""

import pytest

from levelwind.daemon.api.access.bearer_tokens import TokenFile
from levelwind.daemon.errors import ConfigurationError

FIRST = "first-token-of-the-file"
SECOND = "second-token-of-the-file"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# of the platform team\n\ndeploy-bot {FIRST}\nanna {SECOND}\n")
    tokens = TokenFile(path)
    tokens.load()
    return tokens


def test_a_token_has_the_name_of_its_line(file):
    assert file.name_of(FIRST) == "deploy-bot"
    assert file.name_of(SECOND) == "anna"
    assert file.name_of(SECOND + "x") is None
    assert file.name_of("") is None


def test_a_file_that_changed_is_read_again(file):
    file.path.write_text(f"anna {SECOND}\n")
    assert file.name_of(FIRST) is None
    assert file.name_of(SECOND) == "anna"


def test_no_token_counts_while_the_file_is_away(file):
    away = file.path.rename(file.path.with_suffix(".away"))
    assert file.name_of(FIRST) is None
    away.rename(file.path)
    assert file.name_of(FIRST) == "deploy-bot"


def test_no_token_counts_while_the_file_is_wrong(file):
    file.path.write_text("anna short\n")
    assert file.name_of("short") is None
    assert file.name_of(SECOND) is None


def test_no_token_stands_in_the_memory_of_the_file(file):
    assert FIRST not in repr(file)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no token"),
        ("# nothing\n", "has no token"),
        ("just-a-token-without-a-name\n", "line 1: expected a name, a space and a token"),
        (f"anna {FIRST} more\n", "line 1: expected a name"),
        ("\nanna too-short\n", "line 2: the token of 'anna' has fewer than 20 characters"),
        (f"anna {FIRST}\nanna {SECOND}\n", "line 2: 'anna' has a token already"),
    ],
)
def test_a_wrong_file_says_why_and_repeats_no_token(tmp_path, text, reason):
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=reason) as caught:
        TokenFile(path).load()
    assert not any(token in str(caught.value) for token in (FIRST, SECOND, "too-short"))


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        TokenFile(tmp_path / "none").load()
