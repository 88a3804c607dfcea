"""Results of functions of lists of names, which are often those of the batch before."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def remembered(
    lists: int, longest: int, size: Callable[..., int] = len
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Remember a function's results for short lists; long ones would take too much memory.

    Args:
        lists: the number of lists that are remembered.
        longest: the size up to which a list is.
        size: gives the size of a list, the function's first argument.
    """

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        known: Callable[..., _Result] = lru_cache(maxsize=lists)(function)

        @wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            return (known if size(args[0]) <= longest else function)(*args, **kwargs)

        return call

    return decorate
