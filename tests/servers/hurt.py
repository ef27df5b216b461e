"""A server that tests may stop, kill and pause, one after the other."""

from pathlib import Path
from urllib.parse import urlsplit

from servers import Server, make


class Hurtable:
    """One server that knows whether it is up."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._server: Server = make(kind, folder)
        self._is_up = False
        self._count = 0

    @property
    def port(self) -> int:
        """Where it listens on loopback."""
        port = urlsplit(self._server.url("any")).port
        assert port is not None
        return port

    def fresh_url(self) -> str:
        """A namespace on which nothing was stored."""
        self._count += 1
        return self._server.url(f"p{self._count}")

    def start(self) -> None:
        """Start it unless it runs; on the data and the port it had."""
        if not self._is_up:
            self._server.start()
            self._is_up = True

    def stop(self) -> None:
        """End it in good order; harmless when it has ended."""
        self._is_up = False
        self._server.stop()

    def kill(self) -> None:
        """SIGKILL."""
        self._is_up = False
        self._server.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay, and nobody answers."""
        self._server.pause()

    def resume(self) -> None:
        """Let it go on; harmless if it does."""
        if self._is_up:
            self._server.resume()
