"""Inputs of the planner from others: layouts of topics, lag, and the operators' requests."""

from collections import Counter

from levelwind.assignors.protocol.records import LagRecord, OperatorRecord, TopicRecord


class PlannerInputs:
    """The topics of the groups, and what others report about them."""

    def __init__(self, cluster, settings):
        self._cluster = cluster
        self._settings = settings
        self.layouts = {}
        self.partitions = set()
        """All partitions of the topics that exist."""
        self._counts = Counter()

    def create_topic(self, name):
        if name in self.layouts:
            return
        self._counts[name] += 1
        self._lay_out(name, self._settings.topics[name], f"{name}{self._counts[name]}")

    def grow_topic(self, name):
        if name in self.layouts:
            self._lay_out(name, self.layouts[name].partitions + 1, self.layouts[name].id)

    def _lay_out(self, name, partitions, topic_id):
        self._counts["layout"] += 1
        record = TopicRecord(
            topic=name,
            at=1000 + self._counts["layout"],
            id=topic_id.ljust(22, "A"),
            leader=(1,) * partitions,
            replicas=((1,),) * partitions,
            isr=((1,),) * partitions,
            racks=((),) * partitions,
        )
        self.layouts[name] = record
        self.partitions |= {(name, number) for number in range(partitions)}
        self._cluster.write("metadata", record.key, record)

    def delete_topic(self, name):
        if self.layouts.pop(name, None) is not None:
            self.partitions = {pair for pair in self.partitions if pair[0] != name}
            self._cluster.write("metadata", ("topic", name), None)

    def request_plan(self, group):
        self._counts["request"] += 1
        at = self._counts["request"]
        record = OperatorRecord(group=group, at=at, by="operator", action="rebalance", reason="")
        self._cluster.write("control", record.key, record)

    def report_lag(self, group, random):
        for topic in self._settings.groups[group]:
            layout = self.layouts.get(topic)
            if layout is None:
                continue
            count = layout.partitions
            lag = tuple(random.choice((0, 10, 100, 1000)) for _ in range(count))
            self._counts["lag"] += 1
            at = 1000 + self._counts["lag"]
            record = LagRecord(
                group=group,
                topic=topic,
                at=at,
                id=layout.id,
                end_kind="stable",
                committed=(0,) * count,
                committed_at=(at,) * count,
                begin=(0,) * count,
                end=lag,
                lag=lag,
                lost=(0,) * count,
                stale=(),
                racks=((),) * count,
                source={},
            )
            self._cluster.write("lag", record.key, record)
