"""The server around the application: one process, one event loop, stopped in good order."""

import contextlib
import logging
import signal
import socket
import ssl
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from andon.model.errors import ConfigurationError
from andon.service.app import make_app
from andon.service.protocol import protocol_with
from andon.worker.event_loop import Loop, run_on

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from andon.service.service import Service

log = logging.getLogger("andon.service")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Server(uvicorn.Server):
    """Ends streams before it waits for connections to end."""

    def __init__(
        self, config: uvicorn.Config, service: "Service", ready: "Callable[[str], Any] | None"
    ) -> None:
        super().__init__(config)
        self._service = service
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None and sockets:
            self._ready(_url(sockets[0], self._service.settings.certificate))

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._service.stopping.is_set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.begin_stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal ends it in good order, the second does not wait for requests."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> "Generator[None]":
        """Listen to signals; unlike the server's own, without dying of them afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.signal(kind, self.handle_exit) for kind in _SIGNALS}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `ConfigurationError` when the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen on {host} port {port}: {error.strerror}. "
            "Give another with --host and --port; --port 0 takes a free one."
        ) from error
    listening.setblocking(False)
    return listening


def run(
    service: "Service", *, ready: "Callable[[str], Any] | None" = None, loop: Loop = "auto"
) -> None:
    """`serve` on an event loop of its own."""
    run_on(loop, serve(service, ready=ready))


async def serve(service: "Service", *, ready: "Callable[[str], Any] | None" = None) -> None:
    """Serve until SIGTERM, SIGINT or `service.begin_stop()`.

    `ready` is called with the URL once requests are answered. Requests in hand get
    `shutdown_grace`; streams and long polls end at once, in good order. Raises `ConfigurationError`
    when the address cannot be had.
    """
    settings = service.settings
    # The caller logs its start and stop; the binder logs errors of requests.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    listening = bind(settings.host, settings.port)
    try:
        await service.start()
        config = uvicorn.Config(
            make_app(service),
            http=protocol_with(settings),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=round(settings.keep_alive),
            timeout_graceful_shutdown=round(settings.shutdown_grace),
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.private_key,
            ssl_ca_certs=settings.client_ca,
            ssl_cert_reqs=ssl.CERT_NONE if settings.client_ca is None else ssl.CERT_REQUIRED,
        )
        _load(config)
        server = _Server(config, service, ready)
        await server.serve(sockets=[listening])
    finally:
        listening.close()
        await service.stop()


def _load(config: uvicorn.Config) -> None:
    what = f"The client authorities in {config.ssl_ca_certs}"
    try:
        if config.ssl_ca_certs is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(config.ssl_ca_certs)
        what = f"The certificate {config.ssl_certfile}"
        config.load()
    except OSError as error:  # of which the errors of TLS are one kind
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigurationError(f"{what} cannot be used: {reason}.") from error


def _url(listening: socket.socket, certificate: str | None) -> str:
    host, port = listening.getsockname()[:2]
    scheme = "http" if certificate is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
