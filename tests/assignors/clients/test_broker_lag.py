"""`BrokerLag`'s settings: what no client has is refused. What it counts is tested on brokers."""

import pytest

from levelwind.clients.classic import BrokerLag, LagUnavailableError

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize("word", ["Earliest", "earlest", "", "by_duration", 0, None, True])
def test_a_word_that_no_client_has_is_refused_with_those_that_there_are(word):
    with pytest.raises(ValueError, match=r"one of latest, largest, .*error, not "):
        BrokerLag(NOWHERE, "g", auto_offset_reset=word)


def test_brokers_that_do_not_answer_make_the_lag_unknown():
    with pytest.raises(LagUnavailableError, match="lag of group g"):
        BrokerLag(NOWHERE, "g", auto_offset_reset="none", timeout=0.2)({"t"})
