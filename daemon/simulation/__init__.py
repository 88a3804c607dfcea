"""A fleet of consumers on paper: what each strategy would make of the same day. Pure: no Kafka, no Spark, no clock."""
