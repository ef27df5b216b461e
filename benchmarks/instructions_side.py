"""One side of `instructions.py`: as `beside_revision_side.py`, and asks to be counted.

    PYTHONPATH=SRC python instructions_side.py URL

Where a block's measurement begins and ends it says so in a line, and goes on after one of stdin.
"""

import asyncio
import json
import sys
from contextlib import nullcontext

from beside_revision_side import Measured, tell
from full_speed import lone_submits
from meter import Meter

import andon
from andon.client.app import Andon
from andon.stores.registry import open_store
from andon.worker.tuning import tune_process


class Asking(Meter):
    """Asks the process that started this one to count from here and up to here."""

    def __init__(self) -> None:
        super().__init__(None)

    def start(self) -> None:
        """Count from here."""
        _ask("start")

    def stop(self) -> None:
        """Up to here."""
        _ask("stop")


def _ask(what: str) -> None:
    tell(ask=what)
    sys.stdin.readline()


async def serve(url: str) -> None:
    """Do what stdin says until it ends."""
    store = open_store(url)
    await store.open()
    async with Andon(url) as app:
        measured = Measured(app, store, Asking())
        tune_process()
        tell(andon=andon.__file__)
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, n = json.loads(line)
            with lone_submits(store, url) if what == "submit one" else nullcontext():
                await measured.block(what, n)
            tell(done=what)
    await store.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
