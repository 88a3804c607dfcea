"""The topics that are observed, by the expressions of the settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Selection(Struct, frozen=True):
    """Observed topics: those that an inclusion matches in full and no exclusion does."""

    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, include: Iterable[str], exclude: Iterable[str]) -> Selection:
        """Compile the expressions; raise `ConfigurationError` for an invalid one."""
        return cls(_compiled("include", include), _compiled("exclude", exclude))

    def __contains__(self, topic: str) -> bool:
        return any(pattern.fullmatch(topic) for pattern in self.include) and not any(
            pattern.fullmatch(topic) for pattern in self.exclude
        )


def _compiled(name: str, expressions: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    compiled = []
    for expression in expressions:
        try:
            compiled.append(re.compile(expression))
        except re.error as error:
            raise ConfigurationError(
                f"observer.{name}: {expression!r} is not a regular expression: {error}"
            ) from error
    return tuple(compiled)
