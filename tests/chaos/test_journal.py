"""Journals of workers: what is written is read, and a torn last line is left out."""

from levelwind_testing.chaos.journal import Entry, JournalWriter, read_journal

ENTRY = Entry(
    at=12.345678901,
    event="abandoned",
    incarnation="f00",
    epoch=(3, 7),
    topic="work",
    number=2,
    offset=41,
    valid_at=12.25,
)
GAINED = Entry(at=1.5, event="gained", incarnation="f00", topic="work", number=2)


def test_entries_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "a.journal"
    writer = JournalWriter(path)
    writer.write(GAINED)
    writer.write(ENTRY)
    assert list(read_journal(path)) == [GAINED, ENTRY]
    JournalWriter(path).write(GAINED)
    assert list(read_journal(path)) == [GAINED, ENTRY, GAINED]


def test_a_line_that_a_kill_tore_is_left_out(tmp_path):
    path = tmp_path / "a.journal"
    path.write_bytes(GAINED.line + ENTRY.line[:-9])
    assert list(read_journal(path)) == [GAINED]
    path.write_bytes(b"")
    assert list(read_journal(path)) == []
