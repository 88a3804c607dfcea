"""Settings of brokers that fence neither one another nor members while the machine is busy."""

PATIENT = {
    # A broker may be late with a heartbeat; if it were fenced for that, leaders and coordinators
    # would move under tests that have nothing to do with it.
    "broker.session.timeout.ms": "45000",
    "controller.quorum.fetch.timeout.ms": "20000",
    # librdkafka waits for the answer to a heartbeat of KIP-848 as long as the brokers have members
    # wait between two: with the second of a demo's brokers a member's were late, and again those
    # of its next start, and it owned nothing for two minutes.
    "group.consumer.heartbeat.interval.ms": "3000",
    "group.consumer.session.timeout.ms": "20000",
}
