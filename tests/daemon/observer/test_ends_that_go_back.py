"""Logs whose ends go back between two looks at the layout: their topics may have been recreated."""

from types import SimpleNamespace

import pytest

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.observer import observer as module
from levelwind.daemon.observer.cluster_probe import Offsets
from levelwind.daemon.observer.cluster_state import ClusterSnapshot, ClusterState, ObservedTopic
from levelwind.daemon.observer.observer import Observer
from levelwind.daemon.observer.settings import ObserverSettings

TOPIC = ObservedTopic(id="A" * 22, leader=(1,), replicas=((1,),), isr=((1,),))
UNREACHABLE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


@pytest.fixture
def cluster(monkeypatch):
    """A cluster with one partition, whose end the test sets; it notes each probe of the layout."""
    cluster = SimpleNamespace(end=0, whole_probes=[])

    def probe(*_arguments, full, **_options):
        cluster.whole_probes.append(full)
        return ClusterSnapshot(at=1, brokers={1: None}, topics={"t": TOPIC})

    def read(*_arguments, **_options):
        ends = {("t", 0): cluster.end}
        return Offsets(begin={("t", 0): 0}, stable=ends, high=ends, failed={})

    monkeypatch.setattr(module, "probe_cluster", probe)
    monkeypatch.setattr(module, "read_offsets", read)
    return cluster


@pytest.fixture
def observer(cluster, monkeypatch, log):
    topic = SimpleNamespace(
        recover=lambda _within: ClusterState(),
        publish=lambda *_: (),
        offer=lambda _samples: None,
        close=lambda: None,
    )
    monkeypatch.setattr(module, "MetadataTopic", lambda *_: topic)
    settings = ObserverSettings(detect_control_records=False)
    observer = Observer(UNREACHABLE, Topics("lw."), settings, log)
    yield observer
    observer.close()


def test_an_end_that_went_back_is_remembered_until_the_whole_layout_was_asked_for(
    cluster, observer
):
    observer.tick_metadata()
    for cluster.end in (10, 3, 4, 5):
        observer.tick_offsets()
    observer.tick_metadata()
    observer.tick_metadata()
    assert cluster.whole_probes == [True, True, False]
