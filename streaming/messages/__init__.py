"""Rows that pass between the operators, and their bytes; the package knows no rule and no Spark."""
