"""Commands of the tools that the brokers' version comes with, in a JVM that starts fast."""

from levelwind.deploy.broker_config import java_command
from levelwind.deploy.jars import classpath
from levelwind.deploy.java import java


def kafka_tool(main: str, bootstrap: str, *arguments: str) -> list[str]:
    """The command of a tool.

    Args:
        main: its class.
        bootstrap: the brokers that it asks.
        arguments: further ones.
    """
    return java_command(
        java(),
        [*classpath("brokers"), *classpath("tools")],
        ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        main,
        *("--bootstrap-server", bootstrap),
        *arguments,
    )
