"""Environment of the chaos run's programs: they import the project and the tests' support."""

import os

from levelwind_testing.source_tree import NAMES, ROOT

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(NAMES), str(ROOT / "tests" / "support")]),
}
