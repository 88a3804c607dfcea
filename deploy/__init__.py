"""The embedded cluster, its jars and its Java runtime; it imports nothing else of levelwind."""
