"""No jar reaches a classpath unless it is what the lock names."""

import hashlib
import os
import re
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from levelwind.deploy import __main__ as deploy
from levelwind.deploy import jars
from levelwind.deploy.errors import SetupError
from levelwind.deploy.jars import Jar

CONTENT = b"a jar, as it were"
JAR = Jar(
    group="org.example", artifact="thing", version="1.0", sha256=hashlib.sha256(CONTENT).hexdigest()
)


@pytest.fixture
def registry(monkeypatch, tmp_path):
    """A registry of one jar whose content a test may change; it remembers what was asked for."""

    class Registry:
        content = CONTENT
        asked = 0

        def downloaded(self, _jar, directory):
            self.asked += 1
            file = directory / "download.jar"
            file.write_bytes(self.content)
            return file

    registry = Registry()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "_downloaded", registry.downloaded)
    monkeypatch.setattr(jars, "locked", lambda _: (JAR,))
    return registry


def test_a_jar_is_fetched_once(registry):
    (path,) = jars.classpath("brokers")
    assert path.read_bytes() == CONTENT
    assert jars.classpath("brokers") == (path,)
    assert registry.asked == 1


def test_a_download_that_is_not_what_the_lock_names_is_refused(registry):
    registry.content = b"something else"
    with pytest.raises(
        SetupError,
        match=r"org\.example:thing:1\.0: the download differs from jars\.lock",
    ):
        jars.classpath("brokers")
    registry.content = CONTENT
    (path,) = jars.classpath("brokers")
    assert path.read_bytes() == CONTENT


def test_a_file_that_changed_in_the_cache_is_fetched_anew(registry):
    (path,) = jars.classpath("brokers")
    path.write_bytes(b"x" + CONTENT[1:])
    assert jars.classpath("brokers") == (path,)
    assert path.read_bytes() == CONTENT
    assert registry.asked == 2


def test_a_sound_file_without_its_stamp_is_kept(registry):
    (path,) = jars.classpath("brokers")
    for stamp in path.parent.glob("*.verified"):
        stamp.unlink()
    jars.classpath("brokers")
    assert registry.asked == 1


@pytest.fixture
def other_user():
    """A user without rights, and a directory that this user can reach."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    with TemporaryDirectory(prefix="levelwind-test-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
        os.seteuid(0)


def test_a_sound_file_in_a_cache_that_is_only_read_is_used_without_its_stamp(
    registry, other_user, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(other_user))
    (path,) = jars.classpath("brokers")
    (stamp,) = path.parent.glob("*.verified")
    assert stamp.stat().st_mode & 0o777 == 0o644
    stamp.chmod(0o600)
    os.seteuid(65534)
    assert jars.classpath("brokers") == (path,)
    os.seteuid(0)
    stamp.unlink()
    os.seteuid(65534)
    assert jars.classpath("brokers") == (path,)
    assert registry.asked == 1


def test_only_the_jars_of_the_named_sets_are_kept(monkeypatch, registry):
    other = replace(JAR, artifact="other")
    sets = dict.fromkeys(jars.SETS, (JAR,)) | {"spark": (other,)}
    monkeypatch.setattr(jars, "locked", lambda name: sets[name])
    (gone,), (kept,) = jars.classpath("brokers"), jars.classpath("spark")
    jars.keep_only(["spark"])
    assert not gone.exists()
    assert not list(gone.parent.iterdir())
    assert kept.exists()
    assert registry.asked == 2


def test_nothing_half_done_is_left_in_the_cache(registry, tmp_path):
    registry.content = b"something else"
    with pytest.raises(SetupError):
        jars.classpath("brokers")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_jar_that_cannot_be_had_says_so_and_what_to_do(monkeypatch, tmp_path):
    import requests  # noqa: PLC0415 - as the module does
    from jgo.util import http  # noqa: PLC0415 - as above

    def refused(*_, **__):
        raise requests.ConnectionError("no route")

    monkeypatch.setattr(http, "get", refused)
    monkeypatch.setattr(jars.time, "sleep", lambda _: None)
    with pytest.raises(
        SetupError, match=r"cannot be downloaded: no route\. The first set-up needs the network"
    ):
        jars._downloaded(JAR, tmp_path)


def properties_of_the_pom():
    root = ET.parse(jars.POM).getroot()  # noqa: S314 - our own file
    return {element.tag.split("}")[1]: element.text for element in root.find("{*}properties")}


def test_the_lock_holds_the_versions_of_the_pom():
    pom = properties_of_the_pom()
    brokers = {jar.artifact: jar.version for jar in jars.locked("brokers")}
    spark = {jar.artifact: jar.version for jar in jars.locked("spark")}
    scala = pom["scala.version"]
    assert brokers[f"kafka_{scala}"] == brokers["kafka-clients"] == pom["brokers.version"]
    assert brokers["log4j-slf4j-impl"] == brokers["log4j-core"] == pom["log4j.version"]
    assert spark == {
        f"spark-sql-kafka-0-10_{scala}": pom["spark.version"],
        f"spark-token-provider-kafka-0-10_{scala}": pom["spark.token.provider.version"],
        "kafka-clients": pom["spark.kafka.clients.version"],
        "commons-pool2": pom["spark.commons.pool2.version"],
        "hadoop-bare-naked-local-fs": pom["spark.bare.local.fs.version"],
    }


@pytest.mark.parametrize("version", jars.OTHER_BROKERS)
def test_the_lock_of_other_brokers_holds_each_release_with_the_loggers_of_the_present_one(version):
    pom = properties_of_the_pom()
    found = {jar.artifact: jar.version for jar in jars.locked(version, jars.OTHER_LOCK)}
    assert found[f"kafka_{pom['scala.version']}"] == found["kafka-clients"] == version
    # Two loggers on a class path would write the broker's log elsewhere.
    loggers = {name for name in found if "log4j" in name or "logback" in name}
    assert loggers == {"log4j-api", "log4j-core", "log4j-slf4j-impl"}
    assert {found[name] for name in loggers} == {pom["log4j.version"]}


def test_other_brokers_are_fetched_when_they_are_asked_for_and_not_at_set_up(monkeypatch, registry):
    other = replace(JAR, artifact="other", version="3.6.2")
    sets = {**dict.fromkeys(jars.SETS, (JAR,)), "3.6.2": (other,)}
    monkeypatch.setattr(jars, "locked", lambda name, _lock=None: sets[name])
    monkeypatch.setattr(deploy, "java", lambda _: None)
    deploy.setup()
    path = Path(os.environ["XDG_CACHE_HOME"]) / "levelwind" / "maven" / other.path
    assert not path.exists()
    assert jars.broker_classpath("3.6.2") == (path,)
    assert jars.broker_classpath() == jars.classpath("brokers") != (path,)


def release(text):
    """The release that a version belongs to, as in 4.2: within it only faults are mended."""
    return text.rpartition(".")[0]


def test_the_connector_is_of_the_release_of_the_installed_spark():
    assert release(properties_of_the_pom()["spark.version"]) == release(version("pyspark"))


def test_no_artifact_is_on_a_classpath_twice():
    others = [jars.locked(version, jars.OTHER_LOCK) for version in jars.OTHER_BROKERS]
    for locked in (*map(jars.locked, jars.SETS), *others):
        artifacts = [(jar.group, jar.artifact) for jar in locked]
        assert len(artifacts) == len(set(artifacts))


@pytest.mark.parametrize(
    ("lock", "names"), [(jars.LOCK, jars.SETS), (jars.OTHER_LOCK, jars.OTHER_BROKERS)]
)
def test_a_lock_reads_back_as_it_was_written(tmp_path, lock, names):
    sets = {name: jars.locked(name, lock) for name in names}
    (tmp_path / "lock").write_text(jars.written(sets))
    assert {name: jars.locked(name, tmp_path / "lock") for name in names} == sets
    assert (tmp_path / "lock").read_text() == lock.read_text()


def test_every_python_package_is_locked_with_its_digest():
    lock = Path(__file__).parents[2] / "requirements.lock"
    for requirement in re.split(r"\n(?=\S)", lock.read_text()):
        if not requirement.startswith("#"):
            assert re.match(
                r"[a-z0-9-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", requirement, re.DOTALL
            ), requirement[:60]


def test_pyspark_is_pinned_to_the_release_of_its_connector():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (pinned,) = [
        name for name in project["optional-dependencies"]["daemon"] if name.startswith("pyspark")
    ]
    connector = release(properties_of_the_pom()["spark.version"])
    assert release(pinned) == f"pyspark=={connector}"
