"""Topic patterns: the same answers as Python's `re`, in bounded time, and refusals with a word."""

import re
import string
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelwind.assignors.protocol.patterns.pattern_syntax import (
    LONGEST_PATTERN,
    TOPIC_CHARACTERS,
    PatternError,
)
from levelwind.assignors.protocol.patterns.topic_pattern import (
    TopicPattern,
    compiled,
    finds,
    pattern_refusal,
)

LETTERS = st.sampled_from("ab.-1")
NAMES = st.text(alphabet="ab1.-_Z", max_size=12).filter(lambda name: not name.startswith("__"))
ATOMS = st.one_of(
    st.sampled_from(["a", "b", "1", r"\.", "-", ".", r"\d", r"\w", r"\W", r"\D", "[ab]", "[^a1]"]),
    st.sampled_from(["[a-b1]", "[.-]", "[]a]", "[^]a]", r"[\d.]", "[a-]", "_"]),
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"({'|'.join(each)})"),
        st.tuples(
            inner.map(lambda part: f"(?:{part})"),
            st.sampled_from(["*", "+", "?", "{0}", "{2}", "{1,}", "{0,2}", "{2,3}"]),
        ).map("".join),
    ),
    max_leaves=12,
)
BRANCHES = st.tuples(st.sampled_from(["", "^"]), EXPRESSIONS, st.sampled_from(["", "$"])).map(
    "".join
)
PATTERNS = st.lists(BRANCHES, min_size=1, max_size=3).map("|".join).filter(bool)


@given(PATTERNS, st.lists(NAMES, max_size=10))
@example("^a|b$", ["ab", "ca", "bc", "b"])
@example("^(|a)$", ["", "a", "aa"])
def test_it_matches_what_the_regular_expressions_of_python_find(pattern, names):
    reference = re.compile(pattern)
    for name in names:
        assert finds(pattern, name) == bool(reference.search(name)), name


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (r"^orders\.", ["orders.placed", "orders.paid"]),
        (r"^orders\.(placed|paid)$", ["orders.placed", "orders.paid"]),
        ("^.*", ["orders.placed", "orders.paid", "payments-eu", "Orders"]),
        ("^[^.]+$", ["payments-eu", "Orders"]),
    ],
)
def test_examples(pattern, names):
    topics = ["orders.placed", "orders.paid", "payments-eu", "Orders", "__consumer_offsets"]
    assert [name for name in topics if finds(pattern, name)] == names


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "characters"),
        ("a" * (LONGEST_PATTERN + 1), "characters"),
        ("^(a", "has no )"),
        ("^a)", "without its ("),
        ("^[a", "has no ]"),
        ("^[b-a]", "ascending"),
        ("^[[:alpha:]]", "named classes"),
        ("^a**", "quantifier"),
        ("^a+?", "quantifier"),
        ("^*", "quantifier"),
        ("^a{,3}", "count"),
        ("^a{3,2}", "count"),
        ("^a{250}", "count"),
        ("^a{1", "count"),
        ("^a^", "has begun"),
        ("^a$b", "goes on"),
        ("^(a$)", "goes on"),
        ("^(?=a)", "plain group"),
        ("^(?P<n>a)", "plain group"),
        (r"^(a)\1", "not supported"),
        (r"^\b", "not supported"),
        ("^a\\", "not supported"),
        ("^" + "(" * 100 + "a" + ")" * 100, "nested"),
        ("^((a{200}){200}){200}", "repeats"),
        ("^(a?){249}a{249}(b?){249}b{249}(c?){9}", "repeats"),
        ("(a|b)*a(a|b){12}$", "states"),
    ],
)
def test_what_cannot_be_matched_in_bounded_time_is_refused_with_a_word(pattern, reason):
    for _ in range(2):
        assert reason in pattern_refusal(pattern)


@given(st.text(alphabet=string.printable, max_size=40))
def test_any_text_is_a_pattern_or_an_error(text):
    assert isinstance(compiled(text), TopicPattern | PatternError)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(.*)*b$", "^(a?){100}a{100}$"])
def test_a_pattern_that_others_take_ages_for_costs_nothing(pattern):
    """Lines that are executed: a few for each character, and for the automaton a bounded number."""
    name = "a" * 248 + "!"
    compiled_by = lines_of(lambda: TopicPattern(pattern))
    matched_by = lines_of(lambda: finds(pattern, name))
    assert compiled_by < 1_000_000
    assert matched_by < 10 * len(name)


def lines_of(call):
    """How many lines of Python a call executes."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    call()  # what is remembered is remembered now
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_every_character_of_a_topic_name_can_be_matched():
    assert finds("^.{65}$", TOPIC_CHARACTERS)
