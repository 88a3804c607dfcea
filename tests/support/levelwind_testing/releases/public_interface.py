"""Everything that a release offers and needs, as texts by area: what a later one is compared with.

What a release offers, the next offers too. What it needs (rights, arguments), the next needs no
more of: who upgrades has granted and given just that.
"""

from collections.abc import Callable, Iterator, Mapping

from levelwind_testing.releases import http_api, offered_calls, offered_names, printed_json

OFFERS: Mapping[str, Callable[[], Iterator[str]]] = {
    "metrics": offered_names.metrics,
    "log events": offered_names.log_events,
    "events of consumers": offered_names.member_events,
    "commands": offered_calls.commands,
    "exit codes": offered_calls.exit_codes,
    "choices of settings": offered_names.setting_choices,
    "variables": offered_names.variables,
    "default timers": offered_names.default_timers,
    "topics": offered_names.topics,
    "transactional ids": offered_names.ids,
    "calls": offered_calls.calls,
    "HTTP API": http_api.operations,
    "JSON output": printed_json.fields,
}
NEEDS: Mapping[str, Callable[[], Iterator[str]]] = {
    "rights": offered_names.rights,
    "arguments": offered_calls.needed_arguments,
    "requests": http_api.needed,
}


def collected(areas: Mapping[str, Callable[[], Iterator[str]]]) -> dict[str, set[str]]:
    """Return the texts of each area."""
    return {area: set(texts()) for area, texts in areas.items()}
