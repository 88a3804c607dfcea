"""The pages: text, JSON and HTML of one assessment."""

import json
import math
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelwind.daemon.access.role_rights import Operation, Resource, Right
from levelwind.daemon.assessment.assessment import assess
from levelwind.daemon.assessment.observed_groups import EMPTY, Lack
from levelwind.daemon.assessment.pages.html_page import html_page
from levelwind.daemon.assessment.pages.text_page import print_assessment
from levelwind.daemon.assessment.pages.wording import cells, drain_text, group_lines
from levelwind.daemon.console import bytes_text
from levelwind.daemon.control.settings import PlanSettings
from levelwind_testing.groups.observations import (
    NAME,
    RACKS,
    described,
    layout,
    member,
    observed,
)

GROUP = described(*(member(f"m{n}", n, n + 3, rack=RACKS[n - 1]) for n in range(3)))
SAMPLES = (
    (0.0, [0] * 6, [9000, 100, 100, 100, 100, 100]),
    (60.0, [6000, 100, 100, 100, 100, 100], [9000, 100, 100, 100, 100, 100]),
)


def assessed(observation, *names):
    return assess(
        observation,
        names or (NAME,),
        cluster="kafka-1:9092",
        planning_of=lambda _: PlanSettings(strategy="optimal"),
        proxy_refuses=None,
    )


def lack(name):
    right = Right(resource=Resource.GROUP, name=name, operation=Operation.DESCRIBE, purpose="x")
    return Lack(right, "everything about this group")


def test_the_row_of_a_group_has_its_figures_now_and_at_best():
    (group,) = assessed(observed(GROUP, *SAMPLES)).groups
    row = cells(group)
    assert row[:5] == (NAME, "range", "3", "6", "3,000")
    assert row[9] == "100% → 0%"
    assert row[12] == "advisory, proxy, published?, managed?"


def test_what_is_not_known_is_a_dash_and_null_and_never_zero():
    (group,) = assessed(observed(described(member("a", 0, 1)), (0.0, [None, 5], [9, 9]))).groups
    row = dict(zip(("lag", "arrives", "read", "drains"), cells(group)[4:8], strict=True))
    assert row == {"lag": "≥4", "arrives": "-", "read": "-", "drains": "-"}
    shown = group.as_json()
    assert shown["lag_unknown"] == 1
    assert shown["arrivals"] is shown["consumed"] is shown["now"]["drain_seconds"] is None
    assert shown["now"]["drains"] is shown["now"]["cross_rack"] is None


def test_a_time_to_drain_that_leaves_partitions_out_is_marked():
    group = described(member("a", 0, 1))
    samples = [(0.0, [0, None], [900, 9]), (20.0, [400, None], [900, 9])]
    (found,) = assessed(observed(group, *samples)).groups
    assert cells(found)[7].startswith("≥")


def test_lag_that_never_drains_is_said_and_is_no_number_of_json():
    group = described(member("a", 0))
    samples = [(0.0, [0, 0], [900, 900]), (20.0, [400, 0], [900, 900])]
    (found,) = assessed(observed(group, *samples)).groups
    assert cells(found)[7].startswith("never")
    text = json.dumps(found.as_json(), allow_nan=False)
    now = json.loads(text)["now"]
    assert (now["drains"], now["drain_seconds"]) == (False, None)


def test_groups_that_gain_the_most_come_first_and_those_of_nobody_last():
    observation = observed(GROUP, *SAMPLES)
    for sample in observation.samples:
        sample.groups["a-quiet"] = sample.groups[NAME].__class__(
            at=sample.at, group=described(state=EMPTY, assignor=""), commits={}
        )
    found = assessed(observation, NAME, "a-quiet", "gone")
    assert [group.name for group in found.groups] == [NAME, "a-quiet"]
    assert found.unseen == ("gone",)


def test_a_missing_right_is_named_once_for_what_it_costs(capsys):
    names = [f"g{number}" for number in range(9)]
    observation = observed(GROUP, *SAMPLES, lacks=tuple(map(lack, names)))
    print_assessment(assessed(observation))
    out = capsys.readouterr().out
    assert "everything about this group: grant DESCRIBE on group g0" in out
    assert "and 4 more like it" in out


def test_the_text_page_has_the_table_the_groups_and_what_following_needs(capsys):
    print_assessment(assessed(observed(GROUP, *SAMPLES)))
    out = capsys.readouterr().out
    assert "kafka-1:9092: 3 brokers, racks a, b, c; 1 group, 1 with members" in out
    assert "observed for 1 min in 2 samples" in out
    assert "can follow by advisory, proxy; perhaps published, managed" in out
    assert "proxy: consumers as they are; for the daemon READ on group GROUP" in out


def test_no_group_forges_the_row_or_the_section_of_another(capsys):
    page = assessed(observed(GROUP, *SAMPLES))
    [group] = page.groups
    print_assessment(replace(page, groups=(replace(group, name="a\nb"),)))
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("a\\nb") for line in lines) == 2
    assert not [line for line in lines if line.startswith("b")]


def test_one_sample_says_that_it_knows_no_rates(capsys):
    print_assessment(assessed(observed(GROUP, SAMPLES[0])))
    assert "so no rates and no times to drain" in capsys.readouterr().out


def test_nominal_shares_are_marked():
    found = assessed(observed(GROUP, *SAMPLES, layout=layout(6, follower_fetching=None)))
    assert cells(found.groups[0])[9] == "~100% → ~0%"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.data = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.tags += [f"{tag}@{name}" for name, _ in attrs]

    def handle_data(self, data):
        self.data.append(data)


def page_of(name):
    observation = observed(described(member(name, 0, client=name)), (0.0, [4], [9]))
    for sample in observation.samples:
        sample.groups[name] = sample.groups.pop(NAME)
    return html_page(assessed(observation, name))


@given(name=st.text(st.sampled_from("<>&\"'/= abp!-\x1b\u202e"), min_size=1, max_size=40))
@example(name="<b>")
def test_no_name_is_markup_in_the_html_page(name):
    assert Tags(page_of(name)).tags == Tags(page_of("plain")).tags


def test_the_html_page_needs_no_other_file():
    page = page_of("<script src='http://x/'>")
    assert not {"script", "link", "img", "iframe"} & set(Tags(page).tags)
    assert "url(" not in page
    assert "@import" not in page
    assert "&lt;script" in page


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (math.inf, "never"),
        (0.0, "at pace"),
        (0.2, "1 s"),
        (90.0, "90 s"),
        (900.0, "15 min"),
    ],
)
def test_times_to_drain_in_words(seconds, text):
    assert drain_text(seconds) == text


def test_bytes_are_shown_in_their_largest_unit():
    assert [bytes_text(size) for size in (999, 1e3, 2.5e6, 3e9)] == [
        "999 B",
        "1.0 kB",
        "2.5 MB",
        "3.0 GB",
    ]


def test_a_group_names_its_busiest_member_only_where_it_is_uneven():
    (group,) = assessed(observed(GROUP, *SAMPLES)).groups
    assert any("busiest member: m0" in line for line in group_lines(group))
    level = observed(described(member("a", 0), member("b", 1)), (0.0, [0, 0], [500, 500]))
    assert not any("busiest" in line for line in group_lines(assessed(level).groups[0]))
