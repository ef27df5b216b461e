"""The service of `board.py`: `andon serve` over a store, in a process of its own."""

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import psutil
from board_stores import cpu_of

_START_S = 60.0


class Served:
    """`andon serve` over the store of a URL."""

    def __init__(self, url: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        app = Path(__file__).with_name("service_app.py")
        command = [sys.executable, "-m", "andon", "serve", str(app), "--port", str(self.port)]
        self._process = subprocess.Popen(
            command, env={**os.environ, "ANDON_URL": url}, stdout=subprocess.DEVNULL
        )
        self._stats = psutil.Process(self._process.pid)
        until = time.monotonic() + _START_S
        while self._process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(self.url, timeout=_START_S).raise_for_status()
                return
            time.sleep(0.1)
        self.close()
        raise SystemExit("The service did not start; what it said is above.")

    @property
    def cpu_s(self) -> float:
        """Processor time that it has taken so far."""
        return cpu_of(self._process.pid)

    @property
    def rss_mb(self) -> float:
        """Memory that it has."""
        return self._stats.memory_info().rss / 2**20

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(_START_S)


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median and the 95th percentile."""
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(ordered[min(len(ordered) * 95 // 100, len(ordered) - 1)], 1),
    }
