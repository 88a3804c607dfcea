"""The site of the documents, which `make site` builds from docs/ and the files beside it."""

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BESIDE = {"index": "README.md", "changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}
"""Pages that begin with a file of the repository's root."""

project = "levelwind"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"levelwind {release}"
html_show_copyright = False
myst_heading_anchors = 4
nitpicky = True


def with_file_beside(_: Any, page: str, source: list[str]) -> None:
    """Put the file that a page begins with before it, and let links lead to pages of the site."""
    if page in BESIDE:
        source[0] = f"{(ROOT / BESIDE[page]).read_text(encoding='utf-8')}\n{source[0]}"
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", source[0])
    for name, file in BESIDE.items():
        text = re.sub(rf"\]\((?:\.\./)?{re.escape(file)}", f"]({name}.md", text)
    source[0] = text


def setup(app: Any) -> None:
    """Connect what Sphinx calls."""
    app.connect("source-read", with_file_beside)
