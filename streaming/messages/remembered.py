"""Results of functions of lists of names, which are often those of the batch before."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


SHORT_SHARE = 128
"""The share of the longest list up to which a list is short, and the number of short lists that are
remembered for each long one: a fleet has thousands of topics, each with a few groups."""


def _length_of_first(values: Sized, *_: object) -> int:
    return len(values)


def remembered(
    lists: int, longest: int, size: Callable[..., int] = _length_of_first
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Remember a function's results for lists; very long ones would take too much memory.

    Short lists are remembered apart.

    Args:
        lists: the number of lists that are remembered.
        longest: the size up to which a list is.
        size: gives the size of the function's arguments; by default the length of the first one.
    """

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        of_short: Callable[..., _Result] = lru_cache(maxsize=lists * SHORT_SHARE)(function)
        of_long: Callable[..., _Result] = lru_cache(maxsize=lists)(function)
        longest_short = longest // SHORT_SHARE

        @wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            length = size(*args)
            if length <= longest_short:
                return of_short(*args, **kwargs)
            return (of_long if length <= longest else function)(*args, **kwargs)

        return call

    return decorate
