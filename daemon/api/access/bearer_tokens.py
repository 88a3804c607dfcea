"""Access: the bearer tokens that may change something, each with a name for the audit.

The file has a line `NAME TOKEN` for each; blank lines and lines that begin with # do not count. A
token is never logged nor returned, and only its hash is kept. The file is read again when it has
changed, so that a token can be replaced while the daemon runs.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from levelwind.daemon.api.access.file_state import FileState, file_state
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = Logger()

LEAST_TOKEN_LENGTH = 20
"""Characters that a token must have: shorter ones can be guessed."""


@dataclass(slots=True)
class TokenFile:
    """The tokens of a file; one thread calls all methods."""

    path: Path
    _state: FileState | None = None
    _names: Mapping[str, bytes] = field(default_factory=dict)
    """The hash of each token, by its name."""

    def load(self) -> None:
        """Read the file.

        Raises:
            ConfigurationError: the file cannot be read, or a line is no name and token; the text
                repeats no token.
        """
        try:
            state, text = file_state(self.path), self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise ConfigurationError(
                f"http.token_file: {self.path}: cannot be read: {reason}"
            ) from None
        self._names = _parsed(self.path, text)
        self._state = state

    def name_of(self, token: str) -> str | None:
        """Return the name of a token, None if it is none of them.

        Each token of the file is compared, in constant time, whichever one fits.
        """
        self._reload()
        given = sha256(token.encode()).digest()
        found = None
        for name, digest in self._names.items():
            if hmac.compare_digest(given, digest):
                found = name
        return found

    def _reload(self) -> None:
        try:
            if file_state(self.path) == self._state:
                return
            self.load()
        except (OSError, ConfigurationError) as error:
            # No token is valid while the file is not: it may have been taken away to close access.
            if self._names:
                log.error("http.tokens_unreadable", error=str(error))  # noqa: TRY400 - the text says it all
            self._names, self._state = {}, None


def _parsed(path: Path, text: str) -> dict[str, bytes]:
    names: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"http.token_file: {path}, line {number}"
        if len(words) != 2:
            raise ConfigurationError(f"{where}: expected a name, a space and a token")
        name, token = words
        if len(token) < LEAST_TOKEN_LENGTH:
            raise ConfigurationError(
                f"{where}: the token of {name!r} has fewer than {LEAST_TOKEN_LENGTH} characters"
            )
        if name in names:
            raise ConfigurationError(f"{where}: {name!r} has a token already")
        names[name] = sha256(token.encode()).digest()
    if not names:
        raise ConfigurationError(f"http.token_file: {path} has no token")
    return names
