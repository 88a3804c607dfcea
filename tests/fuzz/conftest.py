"""This folder's modules on the path, and the twins and mutations of others."""

import sys
from pathlib import Path

for folder in ("fuzz", "assignors", "streaming"):
    sys.path.append(str(Path(__file__).parents[1] / folder))
