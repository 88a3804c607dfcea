"""The state of one topic and how a batch changes it; pure, it knows neither Spark nor a group's state."""
