"""Real brokers, members and daemon under random faults, and an offline check of what they did."""
