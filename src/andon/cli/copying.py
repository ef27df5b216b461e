"""`andon storage copy`: copies everything in one store into another, with a ledger at the end."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import click

from andon.cli.layout import Column
from andon.cli.output import STYLES, Cell, Word
from andon.cli.session import Session, common, fail, refuse_nowhere
from andon.model.settings import PLACE_SETTING, ROOT_SETTING
from andon.model.wording import plural, span

if TYPE_CHECKING:
    from andon.contract.store import Store
    from andon.engine.copy_ledger import Ledger, Tally

_LINE_EVERY_S = 5.0
"""How often the progress is printed to a pipe."""

_CLOCKS_APART_MS = 1_000
"""From this difference on, the two stores' clocks are mentioned."""

_COLUMNS = (
    Column("state"),
    Column("read", right=True),
    Column("written", right=True),
    Column("already there", right=True),
    Column("differing", right=True),
)

_NOT_COPIED = (
    "Not copied: what is left of tasks deleted within the last 10 minutes (their ids may be "
    "submitted again), and the events of tasks that are deleted already."
)


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--merge", is_flag=True, help="TO may hold tasks of its own; they are left alone.")
@click.option("--with-workers", is_flag=True, help="Copy although workers are alive.")
@common
async def copy(
    session: Session, *, source: str, target: str, merge: bool, with_workers: bool
) -> None:
    """Copy everything in the store FROM into the store TO (both URLs).

    Tasks in every state with their history and dependencies, queues, task types, settings and
    tokens. Artifacts and logs stay where they are. Running tasks go on under their leases. TO is
    made if it is not there; FROM keeps everything. Stop the workers first. If it is interrupted,
    repeat it: it goes on.

    Ends with a ledger, per state: read = written + already there + differing + failed. Exit code 0
    if that holds, nothing differs or failed, and both stores count the same.
    """
    from andon.engine import copying

    if session.given_url is not None:
        raise click.UsageError("Copying takes both stores as arguments: leave --url out.")
    async with _opened(source, creates=False) as old:
        if not with_workers:  # before the other store may be made
            await copying.refuse_workers(old)
        async with _opened(target, creates=True) as new:
            if not with_workers:
                await copying.refuse_workers(new)
            try:
                with _progress(session) as tell:
                    ledger = await copying.copy(old, new, merge=merge, tell=tell)
                unnamed = await _unnamed_place(old, new, source)
                left = await _leaves_files(old, new)
            except asyncio.CancelledError:
                session.out.note("Interrupted. Repeat the same command to go on.")
                raise
    _print(session, ledger)
    if unnamed:
        session.out.note(
            f"Artifacts and logs of runs stay in {unnamed}. Name it for the new store's clients: "
            f"andon storage configure --artifacts {unnamed}"
        )
    elif left:
        session.out.note("Artifacts and logs of runs that the old database keeps are not copied.")
    if not ledger.balanced:
        fail()


@asynccontextmanager
async def _opened(url: str, *, creates: bool) -> "AsyncGenerator[Store, None]":
    from andon.engine.opening import open_store

    refuse_nowhere(url, creates=creates)
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _unnamed_place(old: "Store", new: "Store", source: str) -> str | None:
    """Where the artifacts are, if that is beside the old store and the new one does not name it."""
    from andon.artifacts.place import default_place

    if await old.setting(ROOT_SETTING) is None or await new.setting(PLACE_SETTING):
        return None
    return default_place(source)


async def _leaves_files(old: "Store", new: "Store") -> bool:
    """Whether the old store keeps files itself, which then stay there."""
    if await old.setting(ROOT_SETTING) is None or await new.setting(PLACE_SETTING):
        return False
    return hasattr(old, "blobs")


@contextmanager
def _progress(session: Session) -> Generator[Callable[[int, int], None]]:
    """A bar on a terminal, a line now and then in a pipe, nothing beside JSON."""
    if session.out.json:
        yield lambda done, total: None
    elif sys.stderr.isatty():
        with _bar() as tell:
            yield tell
    else:
        yield _lines(session)


@contextmanager
def _bar() -> Generator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("copying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("copying", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def _lines(session: Session) -> Callable[[int, int], None]:
    told_at = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told_at
        if done == 0:
            session.out.note(f"Copying {plural(total, 'task')} ...")
        elif time.monotonic() - told_at >= _LINE_EVERY_S:
            session.out.note(f"{done:,} of {plural(total, 'task')}")
            told_at = time.monotonic()

    return tell


def _print(session: Session, ledger: "Ledger") -> None:
    out = session.out
    if out.json:
        out.document({"balanced": ledger.balanced, **_fields(ledger)})
        return
    beside = [(name, tally) for name, tally in ledger.beside.items() if tally.read]
    rows = [_row(name, tally) for name, tally in [*ledger.tasks.items(), *beside]]
    out.table(_COLUMNS, rows, empty="There was nothing to copy.")
    for line in _remarks(ledger):
        out.note(line)


def _fields(ledger: "Ledger") -> dict[str, object]:
    return {name: getattr(ledger, name) for name in ledger.__struct_fields__}


def _row(name: str, tally: "Tally") -> list[Cell]:
    differing: Cell = f"{tally.differing:,}"
    if tally.differing:
        differing = Word(f"{tally.differing:,}", "bold red")
    counts = [f"{count:,}" for count in (tally.read, tally.written, tally.there)]
    return [Word(name, STYLES.get(name, "")), *counts, differing]


def _remarks(ledger: "Ledger") -> Generator[str]:
    yield _NOT_COPIED
    apart = ledger.clock_ahead_ms
    if abs(apart) >= _CLOCKS_APART_MS:
        yield (
            f"The clock of the new store is {span(abs(apart) / 1000)} "
            f"{'ahead of' if apart > 0 else 'behind'} the old one's. Times were kept, so leases "
            f"and timers end that much {'earlier' if apart > 0 else 'later'}."
        )
    if ledger.paused:
        yield (
            f"Schedules were copied paused, lest both stores fire them: {_some(ledger.paused)}. "
            "Resume them with: andon schedules resume NAME."
        )
    if ledger.differing:
        yield f"There already, but different, and left as it is: {_some(ledger.differing)}"
    if ledger.failed:
        count = sum(tally.failed for tally in ledger.tasks.values())
        yield f"{count:,} could not be read or written (the log says why): {_some(ledger.failed)}"
    if ledger.unreadable:
        yield (
            f"Records that do not decode cannot be copied: {_some(ledger.unreadable)}. "
            "Delete them with: andon tasks delete ID."
        )
    yield from ledger.miscounted
    if ledger.balanced:
        yield "Everything is there. Do not run workers on the old store any more."
    else:
        yield "The copy is not complete: see above."


def _some(names: list[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
