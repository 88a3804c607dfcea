"""Kafka's bytes to rows: offset commits, group metadata and levelwind's own records; it knows no state and no rule."""
