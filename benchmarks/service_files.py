"""What a large artifact costs a service process in memory, up and down.

    python benchmarks/service_files.py [--mib 1024]

Starts `andon serve` on a store in a temporary folder, claims a task over HTTP, uploads a file of
random bytes as its run, downloads it again, and compares both checksums. The server's resident
memory is sampled every 10 ms; told is its peak above what it had before the first byte, after one
file of 1 MiB went both ways.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil

MIB = 1024 * 1024
_PIECE = os.urandom(MIB)
_PATIENCE_S = 60.0


class Sampler:
    """The peak of a process's resident memory for as long as the block lasts."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.before = self.most = self._process.memory_info().rss

    def _sample(self) -> None:
        while not self._done.wait(0.01):
            self.most = max(self.most, self._process.memory_info().rss)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def more(self) -> float:
        """MiB above what it was at the start."""
        return (self.most - self.before) / MIB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the file")
    mib: int = parser.parse_args().mib
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "app.py").open("w") as file:
            file.write("from andon import Andon\napp = Andon()\n")
        command = [sys.executable, "-m", "andon.cli", "serve", f"{folder}/app.py", "--port", "0"]
        environ = {**os.environ, "ANDON_URL": f"sqlite:///{folder}/tasks.db"}
        server = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)
        try:
            return _measure(server, _url_of(server), mib)
        finally:
            server.terminate()
            server.wait(_PATIENCE_S)


def _url_of(server: "subprocess.Popen[str]") -> str:
    assert server.stderr is not None
    for line in server.stderr:
        for word in line.split():
            if word.startswith("http://"):
                threading.Thread(target=server.stderr.read, daemon=True).start()
                return word.rstrip(".,")
    raise RuntimeError("The service did not start.")


def _measure(server: "subprocess.Popen[str]", url: str, mib: int) -> int:
    with httpx.Client(base_url=url, timeout=_PATIENCE_S) as http:
        http.post("/api/v1/tasks", json={"name": "job", "id": "job"}).raise_for_status()
        claim = {"worker": "w", "queues": ["default"], "lease": 3600}
        [run] = http.post("/api/v1/runs/claim", json=claim).raise_for_status().json()["runs"]
        headers = {"Authorization": f"Bearer {run['token']}"}
        _upload(http, headers, "warm", 1)
        _download(http, "warm")
        with Sampler(server.pid) as up:
            began = time.perf_counter()
            sent = _upload(http, headers, "big", mib)
            up_s = time.perf_counter() - began
        with Sampler(server.pid) as down:
            began = time.perf_counter()
            got = _download(http, "big")
            down_s = time.perf_counter() - began
    print(f"upload    {mib} MiB in {up_s:.1f} s, {up.more:.1f} MiB more memory in the server")
    print(f"download  {mib} MiB in {down_s:.1f} s, {down.more:.1f} MiB more memory in the server")
    print("checksums agree" if sent == got else "CHECKSUMS DIFFER")
    return 0 if sent == got and max(up.more, down.more) < 50 else 1


def _upload(http: httpx.Client, headers: dict[str, str], name: str, mib: int) -> str:
    digest = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        for number in range(mib):
            piece = number.to_bytes(8, "big") + _PIECE[8:]
            digest.update(piece)
            yield piece

    kept = http.put(f"/api/v1/runs/job/0/artifacts/{name}", content=pieces(), headers=headers)
    told: str = kept.raise_for_status().json()["sha256"]
    if told != digest.hexdigest():
        raise RuntimeError("The service kept something else than what was sent.")
    return told


def _download(http: httpx.Client, name: str) -> str:
    digest = hashlib.sha256()
    with http.stream("GET", f"/api/v1/tasks/job/artifacts/{name}") as reply:
        reply.raise_for_status()
        for piece in reply.iter_bytes(MIB):
            digest.update(piece)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
