"""The project's own source, read as text and as syntax trees."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("assignors", "streaming", "daemon", "deploy")
NAME = "levelwind"
"""The package that the folders of the checkout are imported as parts of."""
NAMES = ROOT / ".venv" / "names"
"""A directory from which this checkout is imported, whatever is installed; from `make setup`."""


def package_folders() -> dict[str, str]:
    """The packages that are installed, without those below them, each with its folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(project["tool"]["setuptools"]["package-dir"])


@cache
def source_files() -> dict[str, Path]:
    """Every source file by its module's name; a package's `__init__` has the package's name."""
    files = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = (NAME, *path.relative_to(ROOT).with_suffix("").parts)
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@cache
def syntax_tree(module: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(source_files()[module].read_text(encoding="utf-8"))


def imports(module: str) -> set[str]:
    """The project's modules that a module imports, also in functions and for type checking."""
    files = source_files()
    package = module if files[module].name == "__init__.py" else module.rpartition(".")[0]
    imported = set()
    for node in ast.walk(syntax_tree(module)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names if alias.name in files}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*above, node.module] if node.module else above)
            base = base if node.level else str(node.module)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                imported |= {name} if name in files else {base} & files.keys()
    return imported - {module}
