"""What a process writes, read line by line: JSON values, and anything else as noise."""

import json
import subprocess
import threading
from collections.abc import Callable
from typing import Any


def follow_json_lines(
    process: subprocess.Popen[bytes], take: Callable[[Any], object], noise: list[str]
) -> threading.Thread:
    """Hand on the value of each line in a thread that ends with the process' output.

    What is no JSON goes to `noise`.
    """

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                value = json.loads(line)
            except ValueError:
                noise.append(line.decode(errors="replace"))
            else:
                take(value)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread
