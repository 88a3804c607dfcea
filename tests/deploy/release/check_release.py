"""The release as users get it: `levelwind demo` from an environment that has nothing else."""

import json

import pytest

from levelwind_testing.clean_environment import CleanEnvironment

SECONDS = 120
"""Time of the demo: at its start the pipeline takes what a busy machine leaves it."""

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_demo_runs_from_a_clean_environment(built, kind, tmp_path):
    environment = CleanEnvironment.make(tmp_path / "environment", getattr(built, kind))
    command = [
        "demo",
        "--seconds",
        str(SECONDS),
        "--directory",
        str(tmp_path / "demo"),
        "--format",
        "json",
    ]
    done = environment.run("levelwind", *command, directory=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    print(
        kind,
        len(steps),
        "lines;",
        sorted({str(step.get("step") or step.get("event")) for step in steps}),
    )
    log = (tmp_path / "demo" / "levelwind.log").read_text()
    events = [json.loads(line)["event"] for line in log.splitlines() if line.startswith("{")]
    assert {"daemon.leading", "pipeline.caught_up", "plan.published"} <= set(events)
