"""Assessment of a cluster that runs without levelwind, which knows neither its topics nor Spark.

`cluster_reader`, `member_details` and `log_sizes` ask the brokers and write nothing; what is
concluded from their answers is pure.
"""
