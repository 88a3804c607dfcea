"""The hand-over of partitions between members: pure state machines of both sides."""
