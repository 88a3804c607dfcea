"""Rules of lag, racks and skew: pure functions of values, without any state or batch."""
