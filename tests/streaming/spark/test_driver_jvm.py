"""The JVM's command line, held to the one that Spark's own launcher composes."""

import os
import subprocess
from pathlib import Path

import pytest

from levelwind.deploy.java import home
from levelwind.streaming.spark import session
from levelwind.streaming.spark.jvm import driver_jvm

SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "levelwind",
    "spark.driver.extraClassPath": "/jars/a.jar:/jars/b.jar",
    "spark.driver.memory": "2g",
    "spark.driver.defaultJavaOptions": "-XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-Dx=y -XX:TieredStopAtLevel=1",
}


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in driver_jvm.OWN_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", str(home()))


@pytest.mark.slow
def test_the_command_is_that_of_sparks_launcher():
    confs = [w for name, value in sorted(SETTINGS.items()) for w in ("--conf", f"{name}={value}")]
    launcher = subprocess.run(
        [
            Path(os.environ["JAVA_HOME"], "bin", "java"),
            "-cp",
            f"{driver_jvm.HOME}/jars/*",
            "org.apache.spark.launcher.Main",
            driver_jvm.MAIN,
            *confs,
            "pyspark-shell",
        ],
        env=os.environ | {"SPARK_HOME": str(driver_jvm.HOME), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        check=True,
    )
    expected = [word.strip() for word in launcher.stdout.decode().split("\0") if word.strip()]
    found = driver_jvm.command(SETTINGS)

    def parts(words):
        main = words.index(driver_jvm.MAIN)
        path = words.index("-cp") + 1
        return (
            driver_jvm.class_path_files(words[path]),
            words[:path] + words[path + 1 : main],
            sorted(words[main:]),  # the launcher's order of settings is its own
        )

    files, *others = parts(expected)
    # A jar that the launcher names and its directory has, too, counts where it is named first.
    used = [one for one in dict.fromkeys(files) if not one.name.startswith(driver_jvm.UNUSED)]
    assert parts(found) == (used, *others)


@pytest.mark.parametrize("beginning", driver_jvm.UNUSED)
def test_each_unused_jar_is_one_of_sparks(beginning):
    assert [*(driver_jvm.HOME / "jars").glob(f"{beginning}*.jar")]


def test_the_class_path_is_made_of_files_in_an_order_that_stays():
    class_path = driver_jvm.class_path(SETTINGS)
    files = driver_jvm.class_path_files(class_path)
    assert files[:3] == [Path("/jars/a.jar"), Path("/jars/b.jar"), driver_jvm.HOME / "conf"]
    of_spark = {*(driver_jvm.HOME / "jars").glob("*.jar")}
    assert len(of_spark) > 200
    unused = {jar for jar in of_spark if jar.name.startswith(driver_jvm.UNUSED)}
    assert sorted(files[3:]) == sorted(of_spark - unused)
    assert class_path == driver_jvm.class_path(SETTINGS)


@pytest.mark.parametrize("name", driver_jvm.OWN_SETTINGS)
def test_a_spark_with_settings_of_its_own_is_left_to_its_scripts(monkeypatch, name):
    assert driver_jvm.is_plain(SETTINGS)
    monkeypatch.setenv(name, "x")
    assert not driver_jvm.is_plain(SETTINGS)


def test_another_master_than_a_local_one_is_left_to_sparks_scripts():
    assert not driver_jvm.is_plain(SETTINGS | {"spark.master": "spark://host:7077"})
    assert not driver_jvm.is_plain({})


@pytest.mark.parametrize("chosen", ["-XX:+UseG1GC -Xss4m", "-XX:+UseParallelGC"])
def test_a_collector_that_the_settings_choose_is_not_given_a_second_one(chosen):
    settings = {session.EXTRA_JVM_OPTIONS: chosen}
    of_the_collector = {
        "-XX:+UseSerialGC",
        *session.SHORT_LIVED_BATCHES,
        session.FIRST_HEAP,
        *session.HEAP_GIVEN_BACK,
    }
    assert of_the_collector.isdisjoint(session.default_jvm_options(settings))
    assert of_the_collector <= set(session.default_jvm_options({}))
