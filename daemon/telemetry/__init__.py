"""The log: its vocabulary, configuration and throttling; it knows nothing of Kafka."""
