"""Fields of a line of JSON by their types, and the times of the answer to a line."""

from statistics import median
from typing import Any

from levelwind.assignors.problem.inputs import ProblemError


def json_object(where: str, value: Any) -> dict[str, Any]:
    """The value of a field; raises `ProblemError` with the field's name if it is no object."""
    if not isinstance(value, dict):
        raise ProblemError(f"{where}: must be an object, not {_json_type(value)}")
    return value


def json_list(where: str, value: Any) -> list[Any]:
    """The value of a field; raises `ProblemError` with the field's name if it is no list."""
    if not isinstance(value, list):
        raise ProblemError(f"{where}: must be a list, not {_json_type(value)}")
    return value


def _json_type(value: Any) -> str:
    """Name of a value's JSON type, as error texts write it."""
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        type(None): "missing or null",
    }
    return names.get(type(value), "a number")


def run_times(plan_micros: list[float], total_micros: list[float]) -> dict[str, int]:
    """Microseconds of the first run and, of several runs, their minimum and median."""
    times = {"plan_micros": plan_micros[0], "total_micros": total_micros[0]}
    if len(plan_micros) > 1:
        for name, figure in (("min", min), ("median", median)):
            times[f"{name}_plan_micros"] = figure(plan_micros)
            times[f"{name}_total_micros"] = figure(total_micros)
    return {name: round(micros) for name, micros in times.items()}
