"""The server's certificate, which is read again when its file has changed.

Certificates are renewed while a daemon runs. Connections that are open keep the one they began
with.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.daemon.api.access.file_state import FileState, file_state
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from pathlib import Path

log = Logger()


@dataclass(slots=True)
class CertificateFile:
    """The PEM file of a private key and its certificates; one thread calls all methods."""

    path: Path
    _state: FileState | None = None

    def check(self) -> None:
        """Read the file.

        Raises:
            ConfigurationError: it cannot be read, or does not hold both.
        """
        try:
            self._state = file_state(self.path)
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.path)
        except OSError as error:
            raise ConfigurationError(
                f"http.tls_file: {self.path} must hold a private key and its certificates as PEM:"
                f" {error.strerror or error}"
            ) from error

    def renew(self, context: ssl.SSLContext) -> None:
        """Have a server's context use what the file holds by now, if that has changed.

        A file that cannot be used is logged, and changes nothing: half of it may be written yet.
        """
        try:
            found = file_state(self.path)
        except OSError:
            found = None
        if found == self._state:
            return
        self._state = found
        try:
            self.check()  # apart: a context that was given half of a file would serve that
            _load(context, self.path)
        except (OSError, ConfigurationError) as error:
            log.error("http.certificate_refused", error=str(error))  # noqa: TRY400 - the text says it all
        else:
            log.info("http.certificate_renewed", file=str(self.path))


def _load(context: ssl.SSLContext, path: Path) -> None:
    """Load the file; the password of an encrypted key is not asked for at a terminal."""
    context.load_cert_chain(path, password="")
