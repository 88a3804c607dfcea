"""The rules of lag, racks and skew: pure NumPy functions of values; they know no state and no batch."""
