"""The observer publishes what the brokers answer: layouts, racks and offsets. It knows no group and no plan."""
