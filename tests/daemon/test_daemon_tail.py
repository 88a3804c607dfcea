"""What a test shows of a daemon's log when it fails."""

import json

from levelwind_testing.processes.daemon_process import newest_of_each


def test_frequent_events_do_not_push_out_the_others():
    events = [
        {"event": "proxy.disconnected", "at": 0},
        *({"event": "plan.published", "at": at} for at in range(1, 6)),
        {"event": "proxy.leading", "at": 6},
        {"event": "plan.published", "at": 7},
    ]
    *lines, left_out = newest_of_each(events)
    assert [json.loads(line)["at"] for line in lines] == [0, 4, 5, 6, 7]
    assert left_out == "earlier ones: 3 of plan.published"
    assert newest_of_each(events[:1]) == [json.dumps(events[0])]
