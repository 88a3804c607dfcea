"""What every release so far wrote, took and offered is still understood, and still there."""

import json
import re
from collections import defaultdict
from functools import cache

import pytest

from levelwind.assignors.protocol import records as r
from levelwind.assignors.protocol.records import schemas
from levelwind.daemon.config.settings import load
from levelwind.daemon.config.shown import flattened
from levelwind.streaming.spark.checkpoint import MARKER, QUERY, STATE, CheckpointShape, prepare
from levelwind.streaming.spark.store.checkpoint_files import LocalFiles
from levelwind_testing.releases import pipeline_state
from levelwind_testing.releases.drawn_records import fields_of, shown_by
from levelwind_testing.releases.public_interface import NEEDS, OFFERS, collected
from levelwind_testing.releases.release_corpus import corpora, is_of, present_version
from levelwind_testing.releases.retirements import (
    PAGE,
    Retirement,
    differences,
    loosened,
    needed_since,
    retirements,
    undeclared,
)
from levelwind_testing.releases.sample_settings import unnamed, values, variables, without
from levelwind_testing.source_tree import ROOT

CORPORA = corpora()
LAST = CORPORA[-1]
RELEASED = [corpus.version for corpus in CORPORA]
RETIRED = retirements(PAGE.read_text())
ENDED = {(each.area, each.name) for each in RETIRED if each.has_ended(RELEASED)}
NEEDED = needed_since(PAGE.read_text())

of_each_release = pytest.mark.parametrize("corpus", CORPORA, ids=RELEASED)
offered = cache(lambda area: collected({area: OFFERS[area]})[area])
needed = cache(lambda area: collected({area: NEEDS[area]})[area])


def renamed(area):
    """The new name of a record's field or a setting, by the old one."""
    return {each.name: each.instead for each in RETIRED if each.area == area}


# Records.


@of_each_release
def test_every_record_of_a_release_is_read_and_means_the_same(corpus):
    wrong = []
    for topic, key, value in corpus.records:
        read = r.decode(topic, key, value)
        if isinstance(read, r.Rejection):
            wrong.append(f"{key}: {read.reason}")
            continue
        again, value_again = r.encode(read)
        assert again == key
        old, new = json.loads(value), json.loads(value_again)
        wrong += differences(old, new, read.KIND, renamed("records"))
    assert undeclared("records", wrong, ENDED) == []


def test_the_last_release_reads_the_records_of_today():
    found = []
    for kind, schema in LAST.schemas.items():
        found += loosened(schema, schemas.load(kind), kind)
    assert undeclared("records", found, NEEDED) == []


# Settings.


ended_settings = {name for area, name in ENDED if area == "settings"}


def misunderstood(given, settings):
    """Settings that have another value than they were given."""
    found = {
        path: list(value) if isinstance(value, tuple) else value
        for path, value in flattened(settings)
    }
    names = renamed("settings")
    return [
        f"{path} was {value!r}"
        for path, value in given.items()
        if found.get(path, found.get(names.get(path))) != value
    ]


@of_each_release
def test_a_settings_file_of_a_release_is_taken_and_means_the_same(corpus, tmp_path):
    file = tmp_path / "levelwind.toml"
    file.write_text(without(ended_settings, corpus.settings_file.read_text()))
    assert misunderstood(values(file.read_text()), load(file)) == []


@of_each_release
def test_the_variables_of_a_release_are_taken_and_mean_the_same(corpus, monkeypatch):
    said = values(without(ended_settings, corpus.settings_file.read_text()))
    path_of = variables(said)
    for name, path in path_of.items():
        value = said[path]
        monkeypatch.setenv(name, str(value).lower() if isinstance(value, bool) else str(value))
    assert len(path_of) > 60
    assert misunderstood({path: said[path] for path in path_of.values()}, load()) == []


# Names, documents, rights.


@of_each_release
@pytest.mark.parametrize("area", OFFERS)
def test_what_a_release_offered_is_still_there(corpus, area):
    gone = {*corpus.offers[area]} - offered(area)
    assert undeclared(area, sorted(gone), ENDED) == []


@pytest.mark.parametrize("area", NEEDS)
def test_nothing_is_needed_that_the_last_release_did_not_need(area):
    besides = needed(area) - {*LAST.needs[area]}
    assert undeclared(area, sorted(besides), NEEDED) == []


# Checkpoints.


@of_each_release
def test_a_state_of_a_release_is_continued_as_one_of_today_or_not_at_all(corpus, tmp_path):
    marker = corpus.state["shape"]
    (tmp_path / QUERY).mkdir()
    (tmp_path / MARKER).write_text(json.dumps(marker))
    shape = CheckpointShape(cluster_id=marker["cluster_id"], prefix=marker["prefix"])
    set_aside = prepare(LocalFiles(tmp_path), shape, now="now").set_aside
    if corpus.state["version"] != STATE:
        assert set_aside is not None
        assert corpus.state["version"] in set_aside.reason
        return
    assert set_aside is None
    today = pipeline_state.recorded()
    assert corpus.state.keys() == today.keys()
    continued = pipeline_state.continued(today)
    assert pipeline_state.continued(corpus.state) == continued, "raise a version of the state"
    assert {topic for batch in continued for topic, _ in batch} > {"levelwind.lag"}


# Corpora, and what is declared.


@of_each_release
def test_a_corpus_is_whole(corpus):
    shown = defaultdict(set)
    for topic, key, value in corpus.records:
        kind = r.decode(topic, key, value).KIND
        shown[kind] |= shown_by(json.loads(value), frozenset(fields_of(corpus.schemas[kind])))
    for kind, schema in corpus.schemas.items():
        assert {*fields_of(schema)} - shown[kind] == set()
    assert all(corpus.offers.values())
    assert all(corpus.needs.values())
    assert re.fullmatch("[0-9a-f]{40}", corpus.commit)


def test_each_release_has_its_corpus_and_its_part_of_the_changelog():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    dated = [re.fullmatch(r"(\S+) \(\d{4}-\d\d-\d\d\)", heading)[1] for heading in headings[1:]]
    assert dated == RELEASED[::-1]
    assert present_version() == LAST.version


def test_what_is_declared_to_end_was_there_and_what_replaces_it_is():
    for each in RETIRED:
        assert each.area in {*OFFERS, "records", "settings"}, each
        if each.area in OFFERS:
            were = [text for corpus in CORPORA for text in corpus.offers[each.area]]
            assert any(is_of(text, each.name) for text in were), each
            assert any(is_of(text, each.instead) for text in offered(each.area)), each


def test_a_table_of_declared_changes_is_read():
    row = "| log events | `lag.old` | `lag.new` | 0.3.0 |"
    page = PAGE.read_text().replace("| nothing yet | | | |", row, 1)
    (each,) = retirements(page)
    assert each == Retirement(area="log events", name="lag.old", instead="lag.new", since="0.3.0")
    header = "| area | name | since |\n|---|---|---|\n"
    assert header in page
    added = page.replace(header, f"{header}| rights | `daemon: READ on x` | 0.3.0 |\n")
    assert needed_since(added) == {("rights", "daemon: READ on x"), *needed_since(page)}


def test_a_name_ends_only_after_a_release_that_had_both():
    each = Retirement(area="metrics", name="old", instead="new", since="0.10.0")
    assert not each.has_ended(["0.1.0", "0.9.0"])
    assert each.has_ended(["0.9.0", "0.10.0"])


def test_a_declared_name_stands_for_what_is_told_of_it_and_no_other_name():
    texts = ["lag.old", "lag.old group", "lag.older", "lag.old_one", "lag.old.rate[]:number"]
    assert undeclared("a", texts, {("a", "lag.old"), ("b", "lag")}) == ["lag.older", "lag.old_one"]


def test_what_is_gone_or_changed_is_found_and_what_is_added_is_no_difference():
    old = {"rate": [1, None], "members": [{"rack": "a"}]}
    assert list(differences(old, old | {"later": 1}, "lag")) == []
    assert list(differences(old, {"members": []}, "lag")) == [
        "lag.rate is gone",
        "lag.members was [{'rack': 'a'}] and is []",
    ]
    new = {"speed": [1, None], "members": [{"rack": "a"}]}
    assert list(differences(old, new, "lag", {"lag.rate": "speed"})) == []


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"v": {"type": "integer", "maximum": 9}, "s": {"enum": ["a"]}, "later": {}}, None),
        ({"v": {"type": "integer", "maximum": 11}}, "k.v maximum was 10 and is 11"),
        ({"v": {"type": "integer"}}, "k.v maximum was 10 and is None"),
        ({"v": {"type": ["integer", "null"], "maximum": 9}}, "k.v type was integer and is ['"),
        ({"s": {"enum": ["a", "c"]}}, "k.s enum was ['a', 'b'] and is ['a', 'c']"),
    ],
)
def test_what_an_older_schema_does_not_allow_is_found(now, told):
    was = {"v": {"type": "integer", "maximum": 10}, "s": {"enum": ["a", "b"]}}
    old = {"required": ["v"], "properties": was}
    found = list(loosened(old, {"required": ["s", "v"], "properties": was | now}, "k"))
    assert len(found) == (told is not None)
    assert all(text.startswith(told) for text in found)
    no_more = "k required was ['v'] and is ['s']"
    assert list(loosened(old, {"required": ["s"], "properties": was}, "k")) == [no_more]


def test_a_settings_file_tells_which_settings_it_leaves_out():
    text = LAST.settings_file.read_text()
    for path in ("bootstrap", "log.level", "groups.billing.max_moves"):
        shorter = without({path}, text)
        assert values(text).keys() - values(shorter).keys() == {path}
        assert path.replace("billing", "NAME") in unnamed(shorter)
