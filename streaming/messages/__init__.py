"""The rows that pass between the operators and their bytes; it knows no rule and no Spark."""
