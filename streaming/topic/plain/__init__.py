"""Updates of topics whose batches bring commits and samples and change nothing else: many at once.

The package gives what `topic.update` gives, and knows no rows for groups.
"""
