"""Wake-ups between processes on one file: a datagram socket each, in a folder beside the file.

A socket's name says what its process listens for (`<pid>.<random>.<letters>`, one letter per kind
of topic), so that no process is woken for nothing. A hint that does not fit, or finds a full
buffer, is dropped: the receiver has others waiting, and a slow poll backs every hint. A socket that
refuses belongs to a dead process and is removed by the process that notices.
"""

import contextlib
import hashlib
import json
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from andon.stores.kit.topics import kind_of

_KINDS = {
    "ready": "r",
    "control": "c",
    "task": "t",
    "run": "u",
    "timer": "m",
    "events": "e",
    "config": "g",
}
_NONE = "-"
"""Stands for the letters of a process that listens for nothing."""

_LONGEST_PATH = 100
"""Bytes a socket's path may have on every system we run on (sun_path is 104 to 108)."""

_MOST_TOPICS = 40
"""A hint that would name more topics names only the kind, which wakes all listeners of that
kind."""


class WakeSocket:
    """This process's socket, and the sending to those of all other processes."""

    def __init__(self, database: Path) -> None:
        self._folder = _folder(database)
        self._path = str(self._folder)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._stem = f"{os.getpid()}.{secrets.token_hex(3)}"
        self.kinds: frozenset[str] = frozenset()  #: of topics that others are to hint here
        self._mine: Path | None = None
        self._peers: list[tuple[str, str]] = []
        """Paths of the other sockets that listen for something, with their letters."""
        self._seen: tuple[int, int] | None = None
        self.receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.receiver.setblocking(False)

    def listen(self, kinds: Iterable[str]) -> None:
        """Set the kinds of topics that this process listens for."""
        self.kinds = frozenset(kinds)
        letters = "".join(sorted(_KINDS[kind] for kind in self.kinds))
        path = self._folder / f"{self._stem}.{letters or _NONE}"
        if self._mine is None:
            self.receiver.bind(str(path))
        elif path != self._mine:
            self._mine.rename(path)
        self._mine = path

    def send(
        self, topics: Iterable[str], moved: Sequence[str] = (), begun: Sequence[str] = ()
    ) -> None:
        """Hint every other process that listens for one of the topics, for tasks that moved, or
        for runs that began or progressed."""
        for peer, letters in self._others():
            wanted = [topic for topic in topics if _KINDS[kind_of(topic)] in letters]
            if moved and _KINDS["task"] in letters:
                wanted += _topics("task", moved)
            if begun and _KINDS["run"] in letters:
                wanted += _topics("run", begun)
            if wanted:
                self._send(peer, wanted)

    def _send(self, peer: str, topics: list[str]) -> None:
        if len(topics) > _MOST_TOPICS:
            topics = sorted({kind_of(topic) for topic in topics})
        try:
            self._sender.sendto(json.dumps(topics).encode(), peer)
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                Path(peer).unlink()
        except FileNotFoundError:
            self._seen = None  # renamed or gone since the folder was read
        except OSError:
            return  # its buffer is full: it has hints waiting

    def receive(self) -> set[str]:
        """All topics hinted since the last call. A bare kind stands for all its topics."""
        topics: set[str] = set()
        with contextlib.suppress(BlockingIOError):
            while True:
                topics.update(json.loads(self.receiver.recv(65_536)))
        return topics

    def _others(self) -> list[tuple[str, str]]:
        try:
            # The folder's time is only as fine as the kernel's tick: a socket made in the tick of
            # the last read would stay unseen, so the folder is read again every second at the
            # least.
            found = os.stat(self._path)  # noqa: PTH116 - a `Path` costs twice as much
            changed = (found.st_mtime_ns, int(time.monotonic()))
            if changed != self._seen:
                mine = self._mine.name if self._mine else ""
                names = (entry.name for entry in self._folder.iterdir())
                others = [(name, name.rpartition(".")[2]) for name in names if name != mine]
                self._peers = [
                    (f"{self._path}/{name}", letters)
                    for name, letters in others
                    if letters != _NONE
                ]
                self._seen = changed
        except FileNotFoundError:
            return []
        return self._peers

    def close(self) -> None:
        """Leave. Removes the socket, and the folder if it was the last."""
        self._sender.close()
        self.receiver.close()
        with contextlib.suppress(OSError):
            if self._mine is not None:
                self._mine.unlink()
            self._folder.rmdir()


def _topics(kind: str, tasks: Sequence[str]) -> list[str]:
    """Topics of a kind; of too many the bare kind, which stands for all of them."""
    return [f"{kind}:{task}" for task in tasks] if len(tasks) <= _MOST_TOPICS else [kind]


def _folder(database: Path) -> Path:
    """Beside the file; for a long path, a folder of this user's in the temporary directory, or in
    the system's where that is a long path too."""
    digest = hashlib.blake2b(os.fsencode(database), digest_size=8).hexdigest()
    name = f"andon-{os.getuid()}-{digest}"
    folders = (
        database.with_name(database.name + "-wake"),
        Path(tempfile.gettempdir(), name),
        Path("/tmp", name),  # noqa: S108 - made for this user alone, and holds nothing but sockets
    )
    return next((folder for folder in folders if _fits(folder)), folders[-1])


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder)) + 40 <= _LONGEST_PATH
