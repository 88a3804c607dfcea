"""The assignors for brokers in a Java process of their own."""
