"""The name of a daemon is kept in its state directory, and each start has a name of its own."""

import stat

from levelwind.daemon.service.availability.daemon_identity import (
    FILE,
    instance_of,
    kept_id,
    same_daemon,
)


def test_the_name_is_kept(tmp_path):
    kept = kept_id(tmp_path)
    assert kept_id(tmp_path) == kept
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / FILE]


def test_a_damaged_file_is_replaced(tmp_path):
    (tmp_path / FILE).write_text("no name\n")
    assert kept_id(tmp_path) == kept_id(tmp_path) != "no name"


def test_starts_of_one_daemon_are_told_from_those_of_another(tmp_path):
    kept = kept_id(tmp_path)
    one, two = instance_of(kept), instance_of(kept)
    assert one != two
    assert same_daemon(one, two)
    assert not same_daemon(one, instance_of("0123abcd"))
    assert not same_daemon(one, "host/0123abcd")
