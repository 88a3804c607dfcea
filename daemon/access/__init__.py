"""Rights on the cluster that the daemon, the pipeline, consumers and operators need."""
