"""The demo: brokers, a skewed workload and a narrator around the daemon; nothing else may import it."""
