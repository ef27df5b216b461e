"""A real RabbitMQ on free loopback ports, with everything that it writes in a folder of its own.

Debian has it (`apt-get install rabbitmq-server`); where it is not there the tests are skipped and
say so. It runs as whoever runs the tests, beside any other, and its port mapper ends with it.
"""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from launching import launch
from ports import free_port

_PLACES = (Path("/usr/lib/rabbitmq/bin/rabbitmq-server"), Path("/usr/local/sbin/rabbitmq-server"))
PATIENCE_S = 120.0


def server_program() -> Path:
    """Where RabbitMQ is; skips the test where it is not."""
    named = os.environ.get("ANDON_TEST_RABBITMQ_SERVER")
    places = [Path(named)] if named else [place for place in _PLACES if place.exists()]
    if not places or shutil.which("erl") is None:
        pytest.skip("there is no RabbitMQ here: apt-get install rabbitmq-server")
    return places[0]


class Rabbit:
    """One broker, which can be killed and started again with what it had stored."""

    def __init__(self, folder: Path) -> None:
        self._program = server_program()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._mapper_port, self._dist = free_port(), free_port()
        self._log = (folder / "out").open("ab")
        self._mapper: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        return {
            **os.environ,
            "HOME": folder,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper_port),
            # Erlang in the place of the script that starts it: it dies with whoever started that.
            "RABBITMQ_ALLOW_INPUT": "true",
            "RABBITMQ_NODENAME": f"andon{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_MNESIA_BASE": folder + "/data",
            "RABBITMQ_LOG_BASE": folder + "/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": folder + "/plugins",
            "RABBITMQ_PID_FILE": folder + "/pid",
            "RABBITMQ_CONFIG_FILE": folder + "/none",
            "RABBITMQ_CONF_ENV_FILE": folder + "/none",
            "RABBITMQ_ADVANCED_CONFIG_FILE": folder + "/none",
            # Two schedulers: the machine is not its alone.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
        }

    def start(self) -> None:
        environment = self._environment()
        if self._mapper is None:
            self._mapper = launch(
                [shutil.which("epmd") or "epmd", "-port", str(self._mapper_port)],
                env=environment,
                stdout=self._log,
                stderr=self._log,
            )
        self._process = launch(
            [str(self._program)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
        )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as one:
                one.sendall(b"AMQP\x00\x00\x09\x01")
                return bool(one.recv(1))
        except OSError:
            return False

    @property
    def said(self) -> str:
        return (self.folder / "out").read_text(errors="replace")[-4_000:]

    def kill(self) -> None:
        """End it without a word."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def close(self) -> None:
        self.kill()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait()
        self._log.close()
