"""The end of a watch over topics while the brokers hang."""

import threading

from levelwind.daemon.kafka import topic_watch
from levelwind.daemon.kafka.topic_watch import TopicWatch


def test_a_watch_ends_while_a_question_hangs_and_reports_nothing_afterwards(monkeypatch):
    asked, answer, over, replaced = *(threading.Event() for _ in range(3)), []
    answers = iter([{"t": "before"}])

    def ids(*_):
        if (first := next(answers, None)) is not None:
            return first
        asked.set()
        answer.wait()
        return {"t": "after"}

    monkeypatch.setattr(topic_watch, "topic_ids", ids)
    monkeypatch.setattr(topic_watch, "STOP_SECONDS", 0.01)
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    watch = TopicWatch(nowhere, ["t"], replaced.append, interval=0.001)
    run = watch._thread.run
    monkeypatch.setattr(watch._thread, "run", lambda: (run(), over.set()))
    watch.start(1.0)
    asked.wait()
    watch.stop()
    answer.set()
    over.wait()
    assert replaced == []
