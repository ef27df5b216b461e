"""Runs the demo: finds where it was, starts workers, shows the board, adds up the ledger.

This process makes the schedule and takes the steps of `conducting`; everything else follows from
there in the workers. Each step is found in what is stored, so it may be killed at any moment too.
"""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Generator, Sequence
from typing import TextIO

import msgspec

from andon.contract.queries import Query
from andon.demo import conducting, ending, scanning
from andon.demo import place as places
from andon.demo.app import app
from andon.demo.crew import Crew
from andon.demo.ledger import Ledger, as_json, read_ledger
from andon.demo.place import Place
from andon.demo.scanning import Listing
from andon.demo.watching import Watch, screen_on
from andon.engine.base import Engine
from andon.model.errors import AndonError, ConfigurationError
from andon.model.words import LIVE, State

BALANCED = 0
NOT_BALANCED = 1
UNUSABLE = 2
INTERRUPTED = 128 + signal.SIGINT

WORKERS = 2
_PAGE = 500


def run_demo(
    folder: str | os.PathLike[str] | None = None,
    *,
    url: str | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int = WORKERS,
    concurrency: int | None = None,
    kills: int | None = None,
    fresh: bool = False,
    json: bool = False,
    command: str = "andon demo",
) -> int:
    """Run the demo on a folder (the standard library by default), or go on with it; the exit code.

    `out` is the folder for the store, the report and all else (default: one below `.andon`),
    `url` another store. `workers` is how many worker processes, `concurrency` how many runs each
    has at once (default: so many that all processors are busy). `kills` is how many of them are
    killed with SIGKILL on the way (default: one, if there are many files). `fresh` starts over.
    `json` prints the ledger as one JSON object on standard output, and everything else on standard
    error. `command` is how the user started this, for the hint how to go on.

    0: the ledger balances and the newest report is written. 1: not so. 2: it cannot be run like
    this. 130: interrupted; the same command goes on.
    """
    options = _Options(
        workers=workers,
        concurrency=_at_once(workers) if concurrency is None else concurrency,
        kills=kills,
        fresh=fresh,
        json=json,
    )
    screen: TextIO = sys.stderr if json else sys.stdout
    try:
        if options.workers < 1 or options.concurrency < 1:
            raise ConfigurationError("The demo needs at least one worker, and one run at once.")
        source = places.source_folder(folder)
        home = places.home_of(source, out)
        again = _command(command, folder, url=url, out=out)
        with places.held(home):
            place = places.find(source, home, url)
            return asyncio.run(_Demo(place, options, screen, again).run())
    except AndonError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return UNUSABLE
    except BrokenPipeError:  # nobody reads any more: `andon demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), screen.fileno())
        return NOT_BALANCED


class _Options(msgspec.Struct, frozen=True):
    workers: int
    concurrency: int
    kills: int | None
    fresh: bool
    json: bool


class _Demo:
    """One command, from the start of the store to the exit code."""

    def __init__(self, place: Place, options: _Options, out: TextIO, again: str) -> None:
        self._place = place
        self._options = options
        self._out = out
        self._again = again

    async def run(self) -> int:
        app.url = self._place.url
        async with app:
            engine = await app.engine()
            if self._options.fresh:
                await self._start_over(engine)
            places.keep(self._place)
            made = await conducting.begin(app, self._place.names)
            live = await live_tasks(engine, self._place.names.queue)
            if live and not await self._work(engine, resumed=not made):
                return INTERRUPTED
            return await self._settle(engine, idle=not live)

    async def _start_over(self, engine: Engine) -> None:
        """Begin another round; what the last one left undone is cancelled, the schedule first."""
        place = self._place
        names = place.names
        [schedule] = await engine.get([names.schedule])
        if schedule is None:
            return
        if schedule.state in LIVE:
            await app.schedules.cancel(names.schedule)
        query = Query(queue=names.queue, states=tuple(LIVE), limit=_PAGE)
        while tasks := (await engine.find(query)).tasks:
            await engine.cancel([task.id for task in tasks], force=True)
        self._place = places.next_round(place, await engine.events_end())

    async def _work(self, engine: Engine, *, resumed: bool) -> bool:
        """Have the workers do the round, and show it; False if it was interrupted."""
        place, options = self._place, self._options
        crew = Crew(
            url=place.url,
            queue=place.names.queue,
            size=options.workers,
            concurrency=options.concurrency,
            log=place.home / "workers.log",
        )
        conductor = conducting.Conductor(app, place.names, crew, options.kills)
        watch = Watch(engine, place, crew, conductor)
        await watch.catch_up()
        with screen_on(self._out) as screen:
            if resumed:
                screen.say(f"Going on: {watch.view.resumed:,} tasks had ended already.")
            with _interruptions(crew) as interrupted:
                crew.start()
                try:
                    ended = await watch.until_done(screen, interrupted)
                finally:
                    await crew.stop()
        if not ended:
            view, number = watch.view, watch.view.newest
            done, total = (view.ended(number), view.total(number)) if number else (0, 0)
            print(
                f"\nStopped in flow {number or 1}, with {done:,} of {total:,} tasks done. Nothing "
                f"is lost: what was in hand went back to its queue.\nGo on with:  {self._again}",
                file=self._out,
            )
        return ended

    async def _settle(self, engine: Engine, *, idle: bool) -> int:
        """Add up and print the ledger."""
        place = self._place
        flows = scanning.listings(place.names)
        ledger = await self._ledger(engine, flows)
        reports = await engine.get(
            [place.names.report_of(flow.flow, len(flow.changed)) for flow in flows]
        )
        report = reports[-1] if reports else None
        written = report is not None and report.state is State.COMPLETED
        if self._options.json:
            print(
                as_json(
                    ledger,
                    idle=idle,
                    report=str(place.names.report) if written else None,
                    url=place.url,
                    folder=str(place.folder),
                    round=place.round.number,
                    flows=[
                        {"flow": place.names.flow(flow.flow), "files": len(flow.changed)}
                        for flow in flows
                    ],
                )
            )
        if idle:
            print(
                "There is nothing to do: all of it was done before. "
                f"To do it once more: {self._again} --fresh\n",
                file=self._out,
            )
        text = ending.told(ledger, place, flows, report, again=self._again)
        print(f"{'' if idle else chr(10)}{text}", file=self._out)
        return BALANCED if ledger.balances and written else NOT_BALANCED

    async def _ledger(self, engine: Engine, flows: Sequence[Listing]) -> Ledger:
        names = self._place.names
        expected = [
            f"{names.flow(flow.flow)}:{place}"
            for flow in flows
            for place in range(len(flow.changed) + 2)  # the scan and the report are beside them
        ]
        return await read_ledger(
            engine,
            prefix=names.prefix,
            queue=names.queue,
            cursor=self._place.round.cursor,
            expected=expected,
            schedule=names.schedule,
        )


async def live_tasks(engine: Engine, queue: str) -> int:
    """How many tasks of the queue have not ended, by its counters."""
    stats = [s for s in await engine.stats() if s.queue == queue]
    return sum(s.counts.get(state.value, 0) for s in stats for state in LIVE)


@contextlib.contextmanager
def _interruptions(crew: Crew) -> Generator[asyncio.Event]:
    """Set the event at the first SIGINT or SIGTERM; at the second, kill the workers and exit."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def ask(number: signal.Signals) -> None:
        if asked.is_set():
            crew.kill()
            os._exit(128 + number)
        asked.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, ask, number)
    try:
        yield asked
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _at_once(workers: int) -> int:
    """Runs per worker that keep all processors busy, and one more to fill the gaps between."""
    return -(-(os.cpu_count() or 1) // max(1, workers)) + 1


def _command(
    command: str,
    folder: str | os.PathLike[str] | None,
    *,
    url: str | None,
    out: str | os.PathLike[str] | None,
) -> str:
    name, _, rest = command.partition(" ")
    words = [f"{ending.program()} {rest}" if name == "andon" else command]
    if folder is not None:
        words.append(shlex.quote(os.fspath(folder)))
    if out is not None:
        words.append(f"--out {shlex.quote(os.fspath(out))}")
    if url is not None:
        words.append(f"--url {shlex.quote(url)}")
    return " ".join(words)
