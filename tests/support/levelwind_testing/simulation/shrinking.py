"""The shortest list of faults that still fails, and its transcript of a page."""

from levelwind_testing.simulation.invariants import ViolationError
from levelwind_testing.simulation.world import World

PAGE_LINES = 70
EVENTS_LEFT_OUT = ("handover.advanced",)


def failure_of(seed, settings, faults, **options):
    """Run a world; the violation, or None."""
    try:
        World(seed, settings, faults, **options).run()
    except ViolationError as violation:
        return violation
    return None


def shortest(seed, settings, faults, **options):
    """Take faults out of a failing list while it still fails (delta debugging, then one by one)."""
    faults = list(faults)
    size = max(len(faults) // 2, 1)
    while faults:
        for begin in range(0, len(faults), size):
            fewer = faults[:begin] + faults[begin + size :]
            if failure_of(seed, settings, fewer, **options) is not None:
                faults = fewer
                size = min(size, max(len(faults) // 2, 1))
                break
        else:
            if size == 1:
                break
            size = max(size // 2, 1)
    return faults


def transcript(seed, settings, faults, **options):
    """A page: the seed, the faults, and what happened before the violation."""
    world = World(seed, settings, faults, tracing=True, **options)
    violation = None
    try:
        world.run()
    except ViolationError as found:
        violation = found
    group = getattr(violation, "group", None)
    lines = [
        f"{at:9.3f}  {name:10} {text}"
        for at, name, text in world.lines
        if not text.startswith(EVENTS_LEFT_OUT) and _concerns(name, text, group)
    ]
    head = [
        f"seed {seed}: {violation}",
        f"{settings}",
        *(f"    {fault}" for fault in faults),
        "",
    ]
    return "\n".join([*head, *lines[-(PAGE_LINES - len(head)) :]])


def _concerns(name, text, group):
    if group is None or name.startswith("planner") or not name:
        return "group=" not in text or group is None or f"group={group} " in text
    return name.startswith(group)


def report(seed, settings, faults, **options):
    """The transcript of the shortest failing list of a seed's faults."""
    return transcript(seed, settings, shortest(seed, settings, faults, **options), **options)
