"""Serves the board by itself on loopback, in a process that also does something else: `andon
dev`."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any, cast

import uvicorn

if TYPE_CHECKING:
    from andon.dashboard.board import Board

HOST = "127.0.0.1"
_GRACE_S = 1


class _Server(uvicorn.Server):
    """A server that leaves signals to its process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.asynccontextmanager
async def served(board: "Board", port: int) -> AsyncGenerator[str]:
    """Serve the board for as long as the block lasts; gives its URL. If the port is in use, another
    one is taken."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    with contextlib.closing(_listening(port)) as listening:
        config = uvicorn.Config(
            cast("Any", board),
            lifespan="off",
            interface="asgi3",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        server = _Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            board.begin_stop()
            server.should_exit = True
            await serving


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError:
        listening.bind((HOST, 0))
    listening.setblocking(False)
    return listening
