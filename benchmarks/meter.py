"""Time of the clock, and processor time of this process and of the server that it uses."""

import time

import psutil


class Meter:
    """Processor time of this process and of the server's, its children included."""

    def __init__(self, server: int | None) -> None:
        self._server = psutil.Process(server) if server else None
        self.used = {"client_ns": 0, "server_ns": 0}
        self.clock_ns = 0

    def start(self) -> None:
        """Count from here."""
        self._pids = self._serving()
        self._client, self._before = time.process_time_ns(), sum(map(_used, self._pids))
        self._began = time.perf_counter_ns()

    def stop(self) -> None:
        """Up to here."""
        self.clock_ns = time.perf_counter_ns() - self._began
        self.used["client_ns"] = time.process_time_ns() - self._client
        self.used["server_ns"] = sum(map(_used, self._serving())) - self._before

    def _serving(self) -> list[int]:
        """Server and sessions; not what PostgreSQL does in the background when it likes."""
        if self._server is None:
            return []
        sessions = (
            child for child in self._server.children(recursive=True) if "127.0.0.1" in _title(child)
        )
        return [self._server.pid, *(child.pid for child in sessions)]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _used(pid: int) -> int:
    """Nanoseconds; the clock that Linux has for each process, finer than what /proc tells."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:  # a session that has ended since it was listed
        return 0
