"""The jar for brokers: built alike each time, by a Java runtime and from Kafka's API alone."""

import subprocess
import zipfile

import pytest

from levelwind.deploy.coordinator import assignor_jar
from levelwind.deploy.errors import SetupError
from levelwind.deploy.java import home

pytestmark = pytest.mark.integration  # the compiler takes seconds, and may have to be fetched


def test_the_same_sources_give_the_same_bytes(programs, tmp_path):
    again = assignor_jar.build(tmp_path, "0")
    assert again.name == programs.jar.name == "levelwind-coordinator-0.jar"
    assert again.read_bytes() == programs.jar.read_bytes()


def test_the_jar_has_its_version_and_classes_of_one_package_for_java_17(programs):
    with zipfile.ZipFile(programs.jar) as archive:
        manifest, *classes = archive.namelist()
        assert "Implementation-Version: 0\r\n" in archive.read(manifest).decode()
        for name in classes:
            assert name.startswith("levelwind/coordinator/")
            assert archive.read(name)[:8] == bytes.fromhex("cafebabe 0000 003d"), name


def test_a_jdk_compiles_the_same_classes_without_this_projects_build(programs, tmp_path):
    compiler = home() / "bin" / "javac"
    if not compiler.exists():
        pytest.skip("this Java is a runtime alone")
    sources = sorted(map(str, assignor_jar.SOURCES.rglob("*.java")))
    libraries = ":".join(map(str, assignor_jar.api()))
    options = ["--release", "17", "-Xlint:all", "-Werror", "-cp", libraries, "-d", str(tmp_path)]
    subprocess.run([str(compiler), *options, *sources], check=True)
    made = {path.name for path in tmp_path.rglob("*.class")}
    with zipfile.ZipFile(programs.jar) as archive:
        packed = {name.rpartition("/")[2] for name in archive.namelist()[1:]}
    assert {name for name in made if "$1" not in name} == packed


def test_the_classes_are_compiled_with_kafkas_api_alone():
    assert len(assignor_jar.api()) == len(assignor_jar.API)


@pytest.mark.parametrize(
    ("body", "reason"),
    [("int x = ;", "Syntax error"), ("private int x;", "is not used")],
    ids=["an error", "a warning"],
)
def test_sources_that_do_not_compile_are_an_error_with_the_compilers_words(tmp_path, body, reason):
    source = tmp_path / "Broken.java"
    source.write_text(f"class Broken {{ {body} }}\n")
    with pytest.raises(SetupError, match=reason):
        assignor_jar.compile_java([source], tmp_path / "classes", [])
