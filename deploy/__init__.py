"""What levelwind runs on: the embedded cluster, its jars and its Java runtime."""
