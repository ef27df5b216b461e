"""`andon dev`: store, worker, timekeeper and a live log in one process, anew after each change.

With --reload this process only watches: the work is done by a child, `andon dev --no-reload`,
which is stopped gracefully and started again when a source file has changed. The child watches
its stdin, a pipe that closes when this process is gone, however it went.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING

import click

from andon.cli.logs import Format, log_format, log_level, log_to_stderr
from andon.cli.session import Session, common
from andon.cli.values import DURATION

if TYPE_CHECKING:
    from andon.cli.output import Output
    from andon.cli.sources import Sources
    from andon.client.app import Andon
    from andon.engine.base import Engine
    from andon.model.task import Task

logger = logging.getLogger("andon.dev")

POLL_S = 0.5
CHILD = "ANDON_DEV_CHILD"
"""Set in the environment of the child."""

_MOST_NAMES = 10_000


@click.command()
@click.argument("app")
@click.option("--reload/--no-reload", default=True, show_default=True)
@click.option("--queues", multiple=True, metavar="A,B", help="Only these; default: every queue.")
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Runs at once (100).")
@click.option(
    "--grace", type=DURATION, default=2.0, help="What runs get when the code changes (2s)."
)
@click.option(
    "--board/--no-board",
    "shows_board",
    default=True,
    show_default=True,
    help="Serve the board on loopback, too.",
)
@click.option(
    "--board-port",
    type=click.IntRange(0, 65_535),
    default=8640,
    show_default=True,
    help="Of the board; another is taken if it is in use.",
)
@click.option(
    "--pass-env",
    multiple=True,
    metavar="NAME,…",
    help="Environment variables that commands get besides; AWS_* for all that begin so.",
)
@log_level
@log_format
@common
async def dev(
    session: Session,
    *,
    app: str,
    reload: bool,
    queues: tuple[str, ...],
    concurrency: int | None,
    grace: float,
    shows_board: bool,
    board_port: int,
    pass_env: tuple[str, ...],
    quiet: bool,
    log_level: str | None,
    log_format: Format,
) -> None:
    """Run an application and restart it when it changes.

    Store, worker, timekeeper and the board in one process, with a log of the moves that tasks make;
    the log says where the board is. APP is as for `andon worker`. Runs that a restart stops go back
    to their place and lose no try.
    """
    log_to_stderr(quiet=quiet, level=log_level, form=log_format)
    if reload:
        from andon.cli.sources import Sources, roots_of

        await _Supervisor(Sources(roots_of(app))).run()
        return
    from andon.cli.apps import load_app
    from andon.cli.worker import run, settings_of
    from andon.worker.tuning import tune_process

    settings = settings_of(queues=queues, concurrency=concurrency, grace=grace, pass_env=pass_env)
    application = load_app(app, url=session.given_url)
    tune_process()
    if not await application.until_open(signals=True):
        await application.close()
        return
    engine = await application.connections.engine()
    log = asyncio.create_task(_log(session.out, engine))
    try:
        with _until_parent_ends():
            async with _board(application, board_port if shows_board else None):
                await run(application, settings)
    finally:
        log.cancel()
        await asyncio.gather(log, return_exceptions=True)
        await application.close()


@contextlib.asynccontextmanager
async def _board(application: "Andon", port: int | None) -> AsyncGenerator[None]:
    """Serve the board on loopback, where its packages are there; the log says where. It uses the
    port that it had before a restart, if that is free."""
    if port is None:
        yield
        return
    try:
        from andon.dashboard.serving import served
    except ModuleNotFoundError as error:
        logger.info("No board: it needs %s; pip install 'andon[server]' brings it.", error.name)
        yield
        return
    async with served(application.board(), port) as url:
        logger.info("The board is at %s", url)
        yield


@contextlib.contextmanager
def _until_parent_ends() -> Generator[None]:
    """Stop as at a signal when the process that watches the sources is gone."""
    if os.environ.get(CHILD) is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(0)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(0, gone)
    try:
        yield
    finally:
        loop.remove_reader(0)


async def _log(out: "Output", engine: "Engine") -> None:
    """Print moves as they are made."""
    from andon.cli.events import line_of

    known: dict[str, Task | None] = {}
    async for event in engine.follow():
        if event.task not in known:
            if len(known) >= _MOST_NAMES:
                known.clear()
            [known[event.task]] = await engine.get([event.task])
        words = line_of(event, known[event.task])
        if out.terminal:
            words[0] = str(words[0])[11:23]
        out.words(words)


class _Supervisor:
    """Keeps one child running the newest code."""

    def __init__(self, sources: "Sources") -> None:
        self._sources = sources
        self._child: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._signals = 0

    async def run(self) -> None:
        """Until a signal; exits with what the child exits with."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled, number)
        logger.info("Watching %d source files.", len(self._sources))
        while not self._stopping.is_set():
            self._child = child = await self._start()
            await self._until_change_or_end(child)
            if self._stopping.is_set():
                break
            if child.returncode is None:
                _send(child, signal.SIGTERM)
                await child.wait()
            else:
                logger.warning("It has ended (exit code %d).", child.returncode)
                await self._until_change()
        if self._child is not None:
            code = await self._child.wait()
            # A signal that comes while the application is still being loaded ends it at once.
            if code not in (0, 130, -signal.SIGINT, -signal.SIGTERM):
                raise click.exceptions.Exit(code if code > 0 else 128 - code)

    async def _start(self) -> asyncio.subprocess.Process:
        arguments = [a for a in sys.argv[1:] if a != "--reload"]
        place = arguments.index("dev") + 1
        arguments.insert(place, "--no-reload")
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "andon.cli",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, CHILD: "1"},
        )

    async def _until_change_or_end(self, child: asyncio.subprocess.Process) -> None:
        ended = asyncio.ensure_future(child.wait())
        changed = asyncio.ensure_future(self._until_change())
        await asyncio.wait({ended, changed}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (ended, changed):
            waiting.cancel()
        await asyncio.gather(ended, changed, return_exceptions=True)

    async def _until_change(self) -> None:
        """Until a source file has changed, or a signal came."""
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._stopping.wait()
            changed = await asyncio.to_thread(self._sources.changed)
            if changed:
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                logger.info("%s%s changed: starting anew.", changed[0], more)
                return

    def _signalled(self, number: signal.Signals) -> None:
        self._stopping.set()
        self._signals += 1
        # A Ctrl-C reaches the child by itself: it is in the terminal's foreground group too.
        if self._child is not None and not (number is signal.SIGINT and sys.stdin.isatty()):
            _send(self._child, number)


def _send(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(number)
