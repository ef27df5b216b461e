"""A server that a test may kill, stop and freeze, and that works again after the test."""

import signal
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from servers import Server, make


class Hurtable:
    """One server of its own, for tests that hurt it, one after the other. Fulfils `Server`."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._server: Server = make(kind, folder)
        self._is_up = False
        self._count = 0

    @property
    def pid(self) -> int:
        return self._server.pid

    @property
    def port(self) -> int:
        """Where it listens on loopback."""
        port = urlsplit(self.url("any")).port
        assert port is not None
        return port

    def url(self, namespace: str) -> str:
        return self._server.url(namespace)

    def fresh_url(self) -> str:
        """A namespace on which nothing was stored."""
        self._count += 1
        return self.url(f"p{self._count}")

    def start(self) -> None:
        """Start it unless it runs."""
        if not self._is_up:
            self._server.start()
            self._is_up = True

    def stop(self) -> None:
        self.thaw()
        self._is_up = False
        self._server.stop()

    def kill(self) -> None:
        """SIGKILL, to all of its processes at once."""
        found = self._tree()
        for process in found:
            process.kill()
        self._is_up = False
        self._server.stop()
        psutil.wait_procs(found, timeout=10)

    def freeze(self) -> None:
        """SIGSTOP: connections stay, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on; harmless if it does."""
        if self._is_up:
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for process in self._tree():
            process.send_signal(number)

    def _tree(self) -> list[psutil.Process]:
        parent = psutil.Process(self.pid)
        return [parent, *parent.children(recursive=True)]
