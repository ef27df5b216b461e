"""PgBouncer in transaction mode before a PostgreSQL server, if it is installed."""

import shutil
import socket
import subprocess
import time
from pathlib import Path

from launching import launch
from ports import free_port

from servers.postgres import PATIENCE_S, Identity, PostgresServer

_CONFIGURATION = """\
[databases]
postgres = host=127.0.0.1 port={server} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 100
"""


def program() -> str | None:
    """Where PgBouncer is; None if it is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


class PgBouncer:
    """One pooler on a free loopback port, with at most `connections` to the server.

    Ends with the process that started it, also when that is killed.
    """

    def __init__(self, server: PostgresServer, folder: Path, *, connections: int = 2) -> None:
        found = program()
        assert found is not None, "install pgbouncer"
        self.port = free_port()
        self._log = folder / "pgbouncer.log"
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(server=server.port, own=self.port, connections=connections)
        )
        with self._log.open("wb") as log:
            self._process = launch(
                [found, configuration],
                identity=Identity().name,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        self._wait_until_ready()

    def url(self, namespace: str) -> str:
        """A namespace on the server, through the pooler."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?namespace={namespace}"

    def stop(self) -> None:
        """End it, and the connections through it."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_until_ready(self) -> None:
        patience = time.monotonic() + PATIENCE_S
        while True:
            assert self._process.poll() is None, f"it ended:\n{self._log.read_text()[-2000:]}"
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < patience, f"no answer:\n{self._log.read_text()[-2000:]}"
                time.sleep(0.01)
            else:
                return
