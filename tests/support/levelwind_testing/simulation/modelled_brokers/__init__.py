"""Model of the brokers: logs, transactions, committed offsets, and the links of processes."""
