"""The log: its vocabulary, its configuration and its throttling; it knows nothing of Kafka."""
