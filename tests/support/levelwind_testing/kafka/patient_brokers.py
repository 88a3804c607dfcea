"""Settings of brokers that must not be fenced while other tests keep the machine busy."""

# A broker may then be late with a heartbeat; if it were fenced for that, leaders and coordinators
# would move under tests that have nothing to do with it.
PATIENT = {"broker.session.timeout.ms": "45000", "controller.quorum.fetch.timeout.ms": "20000"}
