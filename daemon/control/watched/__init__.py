"""Groups that Kafka's coordinator manages: planned from what the pipeline knows of their members.

Their plans are published for assignors to apply (`published`), for the leader proxy (`proxy`), or
for people to read (`advisory`). Nothing here hands partitions over: that is the coordinator's, and
the package knows no ledger.
"""
