"""The state of one group and how a batch changes it; pure, it knows neither Spark nor a topic's state."""
