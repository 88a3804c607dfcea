"""The pipeline: committed offsets and metadata in, lag and rebalance triggers out."""
