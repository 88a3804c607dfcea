"""The HTTP server of a daemon: a thread with an event loop of its own, beside the planner's.

The address is bound at the start, so that a wrong one is found before anything else runs. The
framework is imported by the thread: the daemon need not wait for it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from levelwind.daemon.api.access.bearer_tokens import TokenFile
from levelwind.daemon.api.access.certificate_file import CertificateFile
from levelwind.daemon.api.api_context import ApiContext
from levelwind.daemon.api.views.lag_history import INTERVAL_SECONDS
from levelwind.daemon.api.views.live_view import LiveView
from levelwind.daemon.api.views.record_tap import RecordTap
from levelwind.daemon.config.http_section import HttpSection
from levelwind.daemon.config.listen import KEEP_ALIVE_SECONDS, listening_socket, shown_address
from levelwind.daemon.service.availability.http_serving import HttpServing
from levelwind.daemon.telemetry.logger import Logger
from levelwind.daemon.wall_clock import now_ms
from levelwind.daemon.watch_mark import WatchMark

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

    import uvicorn

    from levelwind.daemon.api.event_stream import EventStreams
    from levelwind.daemon.api.operating_routes import DecisionSource
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.kafka.topic_reader import ConsumedRecord, UnreadMessage
    from levelwind.daemon.service.availability.readiness import Readiness
    from levelwind.daemon.service.metrics import Metrics

log = Logger()

DEFAULT_LISTEN = HttpSection().listen
"""The address that makes way where another process has it."""
CLOSE_SECONDS = 5.0
"""Longest wait for the server's thread at the end."""
LOOPBACK_NAME = "localhost"


class HttpServer(HttpServing):
    """A running server; any thread may call its methods."""

    def __init__(
        self, settings: Settings, metrics: Metrics, decisions: DecisionSource | None = None
    ) -> None:
        """Bind the address, and start to serve in the background.

        Args:
            settings: the settings.
            metrics: the daemon's metrics.
            decisions: the decisions to show; None: those of the topic.

        Raises:
            ConfigurationError: the address, the certificate or the file of tokens cannot be used.
        """
        self._section = settings.http
        self._settings = settings
        self._decisions = decisions
        self._tap = RecordTap()
        tokens = None
        if settings.http.token_file:
            tokens = TokenFile(settings.http.token_file)
            tokens.load()
        self._certificate = None
        if settings.http.tls_file:
            self._certificate = CertificateFile(settings.http.tls_file)
            self._certificate.check()
        listen = settings.http.listen
        makes_way = listen == DEFAULT_LISTEN
        _, self._socket = listening_socket("http.listen", listen, or_any_port=makes_way)
        self._context = ApiContext(
            settings=lambda: settings,
            version=version("levelwind"),
            view=LiveView(self._tap),
            registry=metrics.registry,
            members_wanted=metrics.members_wanted,
            tokens=tokens,
        )
        self._server: uvicorn.Server | None = None
        self._streams: EventStreams | None = None
        self._end_streams: Callable[[], object] | None = None
        """Ends the streams, which the server would wait for."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="http-server", daemon=True)
        self._thread.start()
        host, port = self._socket.getsockname()[:2]
        self.address = shown_address(host, port)
        """Host and port, as in a URL."""
        scheme = "https" if settings.http.tls_file else "http"
        self.url = f"{scheme}://{self.address}/"
        """Where the page is."""
        log.info("http.listening", url=self.url, levers=tokens is not None)
        if not (_is_loopback(host) or settings.http.tls_file):
            log.warning("http.unencrypted", address=self.address)

    def on_record(self, read: ConsumedRecord | UnreadMessage) -> None:
        """Take a record that the daemon read; does not wait for what is done with it."""
        self._tap.on_record(read)

    def on_replaced(self) -> None:
        """Note that the topics are others from now on."""
        self._tap.on_replaced()

    def show(
        self, readiness: Callable[[float], Readiness], settings: Callable[[], Settings]
    ) -> None:
        """Show the daemon that runs from now on, and follow the settings in force."""
        self._context.readiness = readiness
        self._context.settings = settings

    def close(self) -> None:
        """Stop serving; waits for the thread."""
        self._closing.set()
        if self._end_streams is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._end_streams()
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(CLOSE_SECONDS)
        self._socket.close()

    def _run(self) -> None:
        with suppress(KeyboardInterrupt):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        import uvicorn  # noqa: PLC0415 - in the thread: see the module

        from levelwind.daemon.api.access.silent_connections import IdleClosingProtocol  # noqa: PLC0415 - likewise
        from levelwind.daemon.api.decision_follower import DecisionFollower  # noqa: PLC0415 - likewise
        from levelwind.daemon.api.event_stream import EventStreams  # noqa: PLC0415 - likewise
        from levelwind.daemon.api.web_app import web_app  # noqa: PLC0415 - likewise

        mark = WatchMark(self._context.settings().state_dir)
        streams = EventStreams(self._context.view, self._context.status_document, mark.renew)
        self._streams = streams
        self._end_streams = partial(asyncio.get_running_loop().call_soon_threadsafe, streams.stop)
        decisions = self._decisions or DecisionFollower(self._settings)
        app = web_app(self._context, decisions, streams, _hosts(self._section, self._socket))
        tls = self._section.tls_file
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
            ws="none",
            loop="asyncio",
            http=IdleClosingProtocol,
            ssl_certfile=str(tls) if tls else None,
        )
        config.load()
        server = uvicorn.Server(config)
        self._server = server
        if self._closing.is_set():
            return
        regular = asyncio.create_task(self._act_regularly(config.ssl))
        try:
            await server.serve(sockets=[self._socket])
        finally:
            streams.stop()
            regular.cancel()
            if isinstance(decisions, DecisionFollower):
                decisions.stop()  # the loop has nothing else to do any more

    async def _act_regularly(self, tls: ssl.SSLContext | None) -> None:
        while True:
            self._context.view.take_points(now_ms())
            if tls is not None and self._certificate is not None:
                self._certificate.renew(tls)
            await asyncio.sleep(INTERVAL_SECONDS)


def _hosts(section: HttpSection, bound: socket.socket) -> frozenset[str] | None:
    """Return the names that requests may ask for, beside addresses; None for any.

    On loopback alone only its own names: another name there is a web page's that was given this
    machine's address.
    """
    if not section.hosts and not _is_loopback(bound.getsockname()[0]):
        return None
    return frozenset({LOOPBACK_NAME, *(name.lower() for name in section.hosts)})


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback
