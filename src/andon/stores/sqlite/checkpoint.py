"""Checkpoints, outside the committing thread: the log is folded into the file while commits go on.

Passive: it never makes a writer or a reader wait. Were this thread to fall behind, a commit that
finds 8,000 pages in the log checkpoints itself (`connection`), so the log stays bounded.
"""

import sqlite3
import threading
from pathlib import Path

from andon.stores.sqlite.connection import connect
from andon.stores.sqlite.location import Location
from andon.stores.sqlite.threads import Ended

WAL_BYTES = 4 * 1024 * 1024
"""A log larger than this is checkpointed."""


class Checkpointer(threading.Thread):
    """Checkpoints when asked, at most once at a time."""

    def __init__(self, location: Location) -> None:
        super().__init__(name="andon-sqlite-checkpoint", daemon=True)
        self._location = location
        self._wal = Path(f"{location.path}-wal")
        self._asked = threading.Event()
        self._closing = False
        self._ended: Ended | None = None

    def look(self) -> None:
        """Called after a commit: ask for a checkpoint if the log has grown."""
        try:
            if self._wal.stat().st_size > WAL_BYTES:
                self._asked.set()
        except FileNotFoundError:
            return

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
        # Without this pause a log that cannot shrink (a reader holds it) would be tried for ever.
        threading.Event().wait(0.05)
