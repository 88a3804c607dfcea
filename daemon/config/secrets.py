"""Secrets of the configuration: read from files of their own, and never shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "_file"
"""End of a client's setting that names the file with the value: `sasl.password_file`."""

MASK = "***"
"""What is shown of a secret."""

MOST_SECRET_BYTES = 1024 * 1024
"""More than any secret has: a file that is larger was named by mistake."""

SECRET = re.compile(
    r"password|secret|credential|token|jaas\.config|\.pem$|keystore\.(key|certificate\.chain)$"
    r"|oauthbearer\.config",
    re.IGNORECASE,
)
"""Names of clients' settings whose values are secrets, or hold one."""


def with_files(table: Mapping[str, str], path: str) -> dict[str, str]:
    """Return a table of clients' settings with the values that files hold.

    A last line break of a file is no part of its value.

    Args:
        table: the settings.
        path: the table's name, for errors.

    Raises:
        ConfigurationError: a file cannot be read, or a value is given twice.
    """
    read: dict[str, str] = {}
    for key, value in table.items():
        if not key.endswith(FILE):
            read[key] = value
            continue
        name = key.removesuffix(FILE)
        if name in table:
            raise ConfigurationError(f"{path}.{key}: {path}.{name} is given, too; leave one out")
        read[name] = _content(Path(value), f"{path}.{key}")
    return read


def _content(file: Path, setting: str) -> str:
    try:
        raw = file.read_bytes()
        text = raw.decode()
    except OSError as error:
        raise ConfigurationError(f"{setting}: {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{setting}: {file} is no UTF-8 text") from error
    if len(raw) > MOST_SECRET_BYTES:
        raise ConfigurationError(f"{setting}: {file} is larger than any secret")
    return text.removesuffix("\n").removesuffix("\r")


def masked(key: str, value: Any) -> Any:
    """Return the value of a client's setting as it may be shown."""
    return MASK if SECRET.search(key) and not key.endswith(FILE) else value
