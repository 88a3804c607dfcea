"""A start that Spark's driver does not survive says why, and is never the checkpoint's fault."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from levelwind.daemon.config.settings import PipelineSection, Settings
from levelwind.daemon.pipeline.order import PipelineOrder
from levelwind.deploy.jars import classpath
from levelwind.streaming.spark.checkpoint import FAILED_STARTS, MARKER, MAX_FAILED_STARTS, QUERY

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory)): file.read_bytes()
        for file in directory.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize(
    ("name", "cause"), [("spark.master", "machine"), ("spark.scheduler.mode", "unknown")]
)
def test_starts_that_fail_again_and_again_leave_the_checkpoint_as_it_is(tmp_path, name, cause):
    """After as many failed queries as may be, one more would set the checkpoint aside."""
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / QUERY / "offsets").mkdir(parents=True)
    (checkpoint / MARKER).write_text("{}")
    (checkpoint / QUERY / "offsets" / "0").write_text("v1")
    failed = {"count": MAX_FAILED_STARTS - 1, "reason": "another one"}
    (checkpoint / FAILED_STARTS).write_text(json.dumps(failed))
    before = content(checkpoint)
    section = PipelineSection(spark={name: "nonsense"})
    settings = Settings(bootstrap="127.0.0.1:9", state_dir=tmp_path, pipeline=section)
    order = tmp_path / "order.json"
    order.write_text(PipelineOrder(settings=settings, jars=classpath("spark")).model_dump_json())
    command = [sys.executable, "-m", "levelwind.daemon.pipeline.process", str(order)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # where the log goes
        text=True,
        check=False,
        timeout=300,
    )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failures = [event for event in events if event["event"] == "pipeline.failed"]
    assert len(failures) == 1, done.stdout
    assert (failures[0]["cause"], failures[0]["rebuild"]) == (cause, False)
    assert failures[0]["error"]
    assert done.returncode == 1
    assert content(checkpoint) == before
