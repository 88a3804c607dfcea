"""The pipeline's process and its supervisor; Spark is loaded in the child process alone."""
