"""Checkpoints, outside the committing thread: the log is folded into the file while commits go on.

Passive: it never makes a writer or a reader wait. Were this thread to fall behind, a commit that
finds 8,000 pages in the log checkpoints itself (`connection`), so the log stays bounded.

A checkpoint flushes the log and the file, and a commit at that moment waits for the disk with it;
so there is one each time the log has grown by `WAL_BYTES`, and none in between.
"""

import os
import sqlite3
import threading
from pathlib import Path

from andon.stores.sqlite.connection import WAL_BYTES, connect
from andon.stores.sqlite.location import Location
from andon.stores.sqlite.threads import Ended


class Checkpointer(threading.Thread):
    """Checkpoints when asked, at most once at a time."""

    def __init__(self, location: Location) -> None:
        super().__init__(name="andon-sqlite-checkpoint", daemon=True)
        self._location = location
        self._wal = Path(f"{location.path}-wal")
        self._size = 0
        self._next = WAL_BYTES
        self._asked = threading.Event()
        self._closing = False
        self._ended: Ended | None = None

    def look(self) -> None:
        """Called after a commit: ask for a checkpoint if the log has grown."""
        try:
            size = os.stat(self._wal).st_size  # noqa: PTH116 - Path.stat costs twice as much
        except FileNotFoundError:
            return
        if size < self._size:  # folded, begun anew, and cut to `WAL_BYTES` (`connection`)
            self._next = WAL_BYTES
        self._size = size
        if size > self._next:
            self._next = size + WAL_BYTES
            self._asked.set()

    async def finish(self) -> None:
        """Close the connection and end the thread."""
        self._ended = Ended()
        self._closing = True
        self._asked.set()
        await self._ended.wait()

    def run(self) -> None:
        """Wait to be asked."""
        db = connect(self._location, write=True)
        try:
            while not self._closing:
                self._asked.wait()
                self._asked.clear()
                if not self._closing:
                    self._checkpoint(db)
        finally:
            db.close()
            if self._ended is not None:
                self._ended.set()

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        try:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:
            return  # busy or full: the writer finds out by itself if it matters
