"""The leader proxy: a member without topics that leads classic groups and dictates their plans.

What it decides is pure (`proxy_machine`, `dictation`); `group_link` and the modules below it speak
Kafka's protocol, in one thread for all groups. The package knows neither the control nor the
publisher: plans and layouts are handed to it.
"""
