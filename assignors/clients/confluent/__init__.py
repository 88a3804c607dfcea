"""`ManagedConsumer` for confluent-kafka: it follows published assignments and knows no strategy."""
