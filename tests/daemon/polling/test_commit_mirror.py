"""The mirror of commits: what is written is what was told, whatever fails in between."""

from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.protocol.kafka.types import compact_array, compact_string, int16
from levelwind.daemon.polling.commit_mirror import CommitMirror
from levelwind.daemon.polling.polled_records import commit_key, offset_in, read_key
from levelwind.daemon.wire.poll_requests import PLAIN_PARTITION, FetchedGroup

GROUPS, TOPICS = ("g", "h"), ("t", "u")
COMMITS = st.dictionaries(
    st.sampled_from(TOPICS), st.dictionaries(st.integers(0, 3), st.integers(0, 3)), max_size=2
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from(GROUPS), COMMITS),
        st.tuples(
            st.just("members"),
            st.sampled_from(GROUPS),
            st.dictionaries(st.integers(0, 2), st.integers(0, 2)),
        ),
        st.tuples(st.just("end"), st.sampled_from(GROUPS), st.none()),
        st.tuples(st.just("write"), st.integers(0, 5), st.none()),
        st.tuples(st.just("restart"), st.none(), st.none()),
    ),
    max_size=30,
)


def answer(group, commits):
    """As a broker writes it; a commit with metadata, too, which takes another form."""
    topics = {
        topic: compact_array(
            [
                PLAIN_PARTITION.pack(number, offset, 5, 1, 0, 0)
                if number
                else PLAIN_PARTITION.pack(0, offset, 5, 1, 0, 0)[:16]
                + compact_string("note")
                + int16(0)
                + b"\0"
                for number, offset in partitions.items()
            ]
        )
        for topic, partitions in commits.items()
    }
    return FetchedGroup(group, 0, topics)


def member_records(group, members):
    return {
        int16(2) + int16(1) + group.encode()
        if not name
        else int16(5) + int16(1) + group.encode() + int16(1) + str(name).encode(): str(
            value
        ).encode()
        for name, value in members.items()
    }


class Story:
    """A mirror, the topic that it writes, and what it was told last."""

    def __init__(self):
        self.log = []
        self.mirror = CommitMirror()
        self.commits, self.members_of = {}, {}

    def commit(self, group, commits):
        self.mirror.commit(answer(group, commits), at=1)
        self.commits[group] = commits

    def members(self, group, members):
        self.mirror.join(group, member_records(group, members))
        self.members_of[group] = members

    def end(self, group, _):
        if group in self.mirror.groups:
            self.mirror.end(group)
        self.commits.pop(group, None)
        self.members_of.pop(group, None)

    def write(self, number, _):
        written = dict(list(self.mirror.unwritten.items())[:number])
        self.log += written.items()
        self.mirror.written(written)

    def restart(self, *_):
        """What was not written is lost; the next answers tell it again."""
        self.mirror = CommitMirror(self.log)
        for group in GROUPS:
            if group not in self.commits and group not in self.members_of:
                self.end(group, None)
                continue
            self.mirror.commit(answer(group, self.commits.get(group, {})), at=2)
            self.mirror.join(group, member_records(group, self.members_of.get(group, {})))

    def topic(self):
        """The newest value of each key, once all is written."""
        state = dict([*self.log, *self.mirror.unwritten.items()])
        return {key: value for key, value in state.items() if value is not None}


@given(STEPS)
def test_the_topic_has_what_was_told_last(steps):
    story = Story()
    for what, subject, detail in steps:
        getattr(story, what)(subject, detail)
    state = story.topic()
    commits = {key: offset_in(value) for key, value in state.items() if read_key(key)[2]}
    assert commits == {
        commit_key(group, topic, number): offset
        for group, topics in story.commits.items()
        for topic, partitions in topics.items()
        for number, offset in partitions.items()
    }
    assert {key: value for key, value in state.items() if key not in commits} == {
        key: value
        for group, members in story.members_of.items()
        for key, value in member_records(group, members).items()
    }


def test_the_same_answer_again_is_no_news():
    mirror = CommitMirror()
    assert mirror.commit(answer("g", {"t": {0: 1, 1: 2}}), at=1)
    mirror.written(dict(mirror.unwritten))
    assert not mirror.commit(answer("g", {"t": {0: 1, 1: 2}}), at=2)
    assert mirror.unwritten == {}
    assert mirror.commit(answer("g", {"t": {0: 1, 1: 3}}), at=3)
    assert [*mirror.unwritten] == [commit_key("g", "t", 1)]


def test_a_start_writes_only_what_has_changed_since():
    mirror = CommitMirror()
    mirror.commit(answer("g", {"t": {0: 1, 1: 2}}), at=1)
    again = CommitMirror(mirror.unwritten.items())
    again.commit(answer("g", {"t": {0: 1, 1: 3}}), at=2)
    assert [*again.unwritten] == [commit_key("g", "t", 1)]


def test_what_was_overtaken_while_it_was_written_is_written_again():
    mirror = CommitMirror()
    mirror.commit(answer("g", {"t": {1: 1}}), at=1)
    under_way = dict(mirror.unwritten)
    mirror.commit(answer("g", {"t": {1: 2}}), at=2)
    mirror.written(under_way)
    assert [offset_in(value) for value in mirror.unwritten.values()] == [2]


def test_foreign_records_are_passed_over():
    mirror = CommitMirror(
        [(b"", b"x"), (None, b"x"), (b"\0\1", None), (commit_key("g", "t", 0), b"")]
    )
    assert mirror.groups == set()
