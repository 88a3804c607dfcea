"""The observer publishes layouts, racks and offsets of the cluster; it knows no group or plan."""
