"""The images: what their file says fits the project; hadolint is run by `make deploy-check`."""

import fnmatch
import json
import re

import pytest

from levelwind.daemon.config.settings import load
from levelwind_testing.manifests import (
    DOCKER,
    ROOT,
    dockerfile_stages,
    inherited,
    parsed_command,
)

TEXT = (DOCKER / "Dockerfile").read_text()
STAGES = dockerfile_stages(TEXT)
IMAGES = ("daemon", "consumer")


def test_both_images_are_there_and_the_daemon_is_the_one_without_a_target():
    assert set(IMAGES) <= STAGES.keys()
    assert list(STAGES)[-1] == "daemon"


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_a_number_that_is_not_root(image):
    user = inherited(STAGES, image, "USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user or "")


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_an_init_process_that_reaps(image):
    assert json.loads(inherited(STAGES, image, "ENTRYPOINT"))[0] == "tini"


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_takes_one_directory_of_what_was_built(image):
    copied = [value for value in STAGES[image].values("COPY") if "--from=" in value]
    assert copied == [f"--from=build-{image} /opt/levelwind /opt/levelwind"]
    bases = {STAGES[image].base, *(s.base for s in STAGES.values() if s.name == STAGES[image].base)}
    assert not any(base.startswith("build") for base in bases)


def test_the_command_of_the_image_is_one_of_levelwinds():
    entry = json.loads(STAGES["daemon"].values("ENTRYPOINT")[-1])
    assert entry[-1] == "levelwind"
    assert parsed_command(json.loads(STAGES["daemon"].values("CMD")[-1])) == "run"


def test_the_settings_of_the_image_fit_its_file(monkeypatch):
    monkeypatch.setenv("LEVELWIND_BOOTSTRAP", "kafka:9092")
    (source,) = [v for v in STAGES["daemon"].values("COPY") if "--from" not in v]
    file, target = source.split()
    assert target in STAGES["daemon"].values("CMD")[-1]
    settings = load(ROOT / file)
    assert settings.bootstrap == "kafka:9092"
    assert str(settings.state_dir) in STAGES["daemon"].values("VOLUME")[-1]
    _, _, port = settings.http.listen.rpartition(":")
    assert STAGES["daemon"].values("EXPOSE") == [port]
    assert f":{port}/healthz" in STAGES["daemon"].values("HEALTHCHECK")[-1]


def test_every_package_is_installed_by_the_hashes_of_a_lock():
    runs = [value for stage in STAGES.values() for value in stage.values("RUN")]
    steps = [step for run in runs for step in run.split("&&")]
    installs = [step for step in steps if re.search("pip install|pip sync|uv build", step)]
    assert len(installs) >= 6
    for line in installs:
        own = "--no-deps" in line and "/wheel/" in line
        assert own or "--require-hashes" in line, line
    assert not re.search(r"\b(curl|wget|ADD) ", TEXT)


def ignored(path):
    """Whether the last rule of the ignore file that fits a path leaves it out."""
    left_out = False
    for rule in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines():
        if rule and not rule.startswith("#"):
            pattern = rule.removeprefix("!")
            parts = path.split("/")
            above = ["/".join(parts[: n + 1]) for n in range(len(parts))]
            if any(fnmatch.fnmatch(each, pattern) for each in above):
                left_out = not rule.startswith("!")
    return left_out


def test_what_is_copied_exists_and_is_sent_to_the_build():
    sources = [
        source
        for stage in STAGES.values()
        for value in stage.values("COPY")
        if "--from=" not in value
        for source in value.split()[:-1]
    ]
    assert {"pyproject.toml", "daemon", "requirements-daemon.lock"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if ignored(source)] == []


@pytest.mark.parametrize("path", [".git", ".venv", "tests", "x.pem", "daemon/__pycache__"])
def test_what_is_no_part_of_the_build_is_not_sent(path):
    assert ignored(path)
