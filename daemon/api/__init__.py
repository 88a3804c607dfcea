"""HTTP of a daemon: probes, metrics, the API and the page; it decides nothing and plans nothing."""
