"""The demo: brokers, a skewed workload and a narrator; only the command line imports it."""
