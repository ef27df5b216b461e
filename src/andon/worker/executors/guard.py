"""Kills the processes that the worker started when the worker dies, even by force.

One small process beside the worker (`guardian`) knows the process groups in hand. It is started
with the first of them, and again if it ends itself.
"""

import contextlib
import logging
import os
import subprocess
import sys
import threading

from andon.worker.executors import guardian

logger = logging.getLogger("andon.worker")

_END_S = 2.0
_AGAIN_S = 1.0
"""How long after a guardian has ended the next is started."""


class Guard:
    """The groups in hand, held from any thread. Nothing here raises: a worker without a guardian
    logs that, and goes on."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._closing = threading.Event()

    def hold(self, group: int) -> None:
        """From now on this process group is killed if the worker is gone."""
        with self._mutex:
            self._held.add(group)
            if self._process is None:
                self._start()  # sends it all held groups
            else:
                self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """The group has ended, or may live on."""
        with self._mutex:
            if group in self._held:
                self._held.discard(group)
                self._tell(f"-{group}\n")

    def close(self) -> None:
        """End the guardian; groups that are still held are killed."""
        with self._mutex:
            self._closing.set()
            process = self._process
            self._drop()
        if process is None:
            return
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:  # it hangs, or has not even begun to read
            process.kill()
            process.wait()
            guardian.kill(self._held)

    def _start(self) -> None:
        if self._closing.is_set():
            return
        source, self._pipe = os.pipe()
        try:
            # A full pipe means that the guardian reads no more: a worker must not wait for that.
            os.set_blocking(self._pipe, False)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, str(os.getpid())],
                stdin=source,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,  # a Ctrl-C at the terminal is the worker's to handle
            )
        except OSError as error:
            logger.warning(
                "Commands and child processes will outlive this worker if it is killed: the "
                "process that watches over them cannot be started: %s",
                error,
            )
            self._drop()
            return
        finally:
            os.close(source)
        watch = threading.Thread(
            target=self._watch, args=(self._process,), name="andon-guard", daemon=True
        )
        watch.start()
        self._tell("".join(f"+{group}\n" for group in self._held))

    def _tell(self, lines: str) -> None:
        if self._process is None:
            return
        data = lines.encode()
        with contextlib.suppress(OSError):
            if os.write(self._pipe, data) == len(data):
                return
        # It has ended, or hangs: the watching thread starts another and sends it all groups.
        self._process.kill()

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        process.wait()
        if self._closing.wait(_AGAIN_S):
            return
        with self._mutex:
            if self._process is not process:
                return
            self._drop()
            if self._held:
                logger.warning("The process that watches over commands has ended; another follows.")
                self._start()

    def _drop(self) -> None:
        self._process = None
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
