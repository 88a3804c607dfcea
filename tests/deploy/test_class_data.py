"""Class-data archives: which one belongs to which JVM, and that none of them can do harm."""

import os
import subprocess
import time
from random import Random

import pytest

from levelwind.deploy import class_data
from levelwind.deploy.java import java


@pytest.fixture
def jars(monkeypatch, tmp_path):
    """A cache of the test's own, and two files of a class path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = [tmp_path / "java", tmp_path / "a.jar", tmp_path / "b.jar"]
    for file in files:
        file.write_text(file.name)
    return files


def archive(files):
    return class_data.archive("spark", files[0], files[1:])


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_another_java_or_jar_has_another_archive(jars, changed):
    before = archive(jars)
    assert archive(jars) == before
    jars[changed].write_text("another version")
    assert archive(jars) != before


def test_the_order_of_the_class_path_counts_and_missing_files_do_not(jars, tmp_path):
    assert archive([jars[0], *reversed(jars[1:])]) != archive(jars)
    assert archive([*jars, tmp_path / "none.jar"]) == archive(jars)


def test_times_within_a_second_are_the_same_as_in_the_layers_of_an_image(jars):
    os.utime(jars[1], ns=(0, 1_700_000_000_123_456_789))
    before = archive(jars)
    os.utime(jars[1], ns=(0, 1_700_000_000_000_000_000))
    assert archive(jars) == before
    os.utime(jars[1], ns=(0, 1_700_000_001_000_000_000))
    assert archive(jars) != before


def test_only_the_archives_of_the_named_programs_are_kept(jars):
    spark, brokers = archive(jars), class_data.archive("brokers", jars[0], jars[1:])
    spark.parent.mkdir(parents=True)
    for file in (spark, brokers):
        file.write_text("classes")
    class_data.keep_only(["spark"])
    assert list(spark.parent.iterdir()) == [spark]


def test_a_missing_archive_is_no_option(jars):
    assert class_data.options(archive(jars)) == ()


def test_a_draft_becomes_the_archive_when_it_is_whole(jars):
    file = archive(jars)
    draft = class_data.draft_of(file)
    assert f"-XX:ArchiveClassesAtExit={draft}" in class_data.recording_options(draft)
    assert not class_data.adopt(draft, file)
    draft.write_text("classes")
    assert class_data.adopt(draft, file)
    assert f"-XX:SharedArchiveFile={file}" in class_data.options(file)
    assert not draft.exists()


def test_archives_that_nobody_uses_go_and_those_in_use_stay(jars):
    now = time.time()
    file = archive(jars)
    file.parent.mkdir(parents=True)
    old = [file.with_name("old.jsa"), file.with_name(".draft-1.jsa")]
    for path in (file, *old):
        path.write_text("classes")
        os.utime(path, (now - 2 * class_data.UNUSED_SECONDS,) * 2)
    class_data.options(file)
    class_data.remove_unused(file.parent, now)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("content", [b"", b"no archive", Random(1).randbytes(100_000)])
def test_a_jvm_starts_without_a_word_on_an_archive_that_is_none(jars, content):
    file = archive(jars)
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    command = [java(), *class_data.options(file), "-cp", jars[1], "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "warning" not in done.stderr.lower()
