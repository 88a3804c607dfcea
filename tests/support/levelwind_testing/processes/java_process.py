"""A Java process whose classes are called from Python; it ends with the test's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from levelwind.deploy.java import java

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class JavaProcess:
    """The process, with some jars."""

    def __init__(self, jars: Iterable[Path], *javaopts: str) -> None:
        """Start it.

        Args:
            jars: jars and folders of classes.
            javaopts: further options of Java.
        """
        port, secret, self._process = launch_gateway(
            classpath=os.pathsep.join(map(str, jars)),
            java_path=str(java()),
            javaopts=list(javaopts),
            enable_auth=True,
            die_on_exit=True,
            return_proc=True,
        )
        self.gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=secret)
        )
        """Its `jvm` names the packages."""

    def close(self) -> None:
        """End it."""
        self.gateway.shutdown()
        self._process.stdin.close()  # ends the process: see die_on_exit
        self._process.wait(30)
