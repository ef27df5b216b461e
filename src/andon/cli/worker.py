"""`andon worker`: a worker and a timekeeper in this process, until told to stop."""

import contextlib
import logging
from typing import TYPE_CHECKING

import click

from andon.cli.apps import load_app
from andon.cli.errors import HookFailed
from andon.cli.logs import Format, log_format, log_level, log_to_stderr
from andon.cli.loops import event_loop
from andon.cli.session import Session, common
from andon.cli.values import DURATION, comma_separated
from andon.client.app import Andon, WorkerSettings
from andon.model.errors import ConfigurationError
from andon.model.urls import shown
from andon.worker.event_loop import Loop, run_on
from andon.worker.shutdown import Signals
from andon.worker.tuning import tune_process

if TYPE_CHECKING:
    from collections.abc import Generator

logger = logging.getLogger("andon.cli")


@click.command()
@click.argument("app")
@click.option("--queues", multiple=True, metavar="A,B", help="Only these; default: every queue.")
@click.option("--strict", is_flag=True, help="Ask queues in the order named, not by weight.")
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Runs at once (100).")
@click.option("--per-type", type=click.IntRange(1), metavar="N", help="Runs at once of one type.")
@click.option(
    "--children",
    type=click.IntRange(1),
    metavar="N",
    help="Runs at once in child processes; default: one a processor.",
)
@click.option("--id", "worker_id", metavar="ID", help="Unique in the fleet; default: made up.")
@click.option("--lease", type=DURATION, help="How long a claim holds unrenewed (30s).")
@click.option("--grace", type=DURATION, help="What runs get at a stop; default: as policies say.")
@click.option(
    "--pass-env",
    multiple=True,
    metavar="NAME,…",
    help="Environment variables that commands get besides; AWS_* for all that begin so.",
)
@click.option(
    "--trust",
    multiple=True,
    metavar="FILE",
    help="Run only tasks signed with a key in FILE (or ANDON_TRUSTED_KEYS); may be repeated.",
)
@click.option("--no-timekeeper", is_flag=True, help="Leave timers to other workers.")
@click.option(
    "--require-store",
    is_flag=True,
    help="Exit with 1 if the store is away at the start; default: wait for it.",
)
@event_loop
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics there to Prometheus.")
@log_level
@log_format
@common
def worker(
    session: Session,
    *,
    app: str,
    queues: tuple[str, ...],
    strict: bool,
    concurrency: int | None,
    per_type: int | None,
    children: int | None,
    worker_id: str | None,
    lease: float | None,
    grace: float | None,
    pass_env: tuple[str, ...],
    trust: tuple[str, ...],
    no_timekeeper: bool,
    require_store: bool,
    loop: Loop,
    metrics: str | None,
    quiet: bool,
    log_level: str | None,
    log_format: Format,
) -> None:
    """Run an application's tasks.

    APP is module:attribute, or path/to/file.py[:attribute]; the attribute may be left out where
    there is one application only. SIGTERM or SIGINT: claim no more and finish what runs; again:
    stop it; a third time: exit at once. SIGTSTP: claim no more until SIGCONT.

    A store that is away when the worker starts is waited for, and the log says so.
    """
    log_to_stderr(quiet=quiet, level=log_level, form=log_format)
    settings = settings_of(
        queues=queues,
        strict=strict,
        concurrency=concurrency,
        per_type=per_type,
        children=children,
        worker_id=worker_id,
        lease=lease,
        grace=grace,
        pass_env=pass_env,
        trust=trust,
    )
    application = load_app(app, url=session.given_url)
    tune_process()
    timekeeper = not no_timekeeper
    work = _work(application, settings, metrics, timekeeper=timekeeper, require_store=require_store)
    run_on(loop, work)


async def _work(
    application: Andon,
    settings: WorkerSettings,
    metrics: str | None,
    *,
    timekeeper: bool,
    require_store: bool,
) -> None:
    try:
        with serving_metrics(application, metrics):
            if require_store or await application.until_open(signals=True):
                await run(application, settings, timekeeper=timekeeper)
    finally:
        await application.close()


@contextlib.contextmanager
def serving_metrics(app: Andon, where: str | None) -> "Generator[None]":
    """Count what the application does from now on, and serve the counts to Prometheus at `where`,
    if given.

    Raises `ConfigurationError` when that cannot be.
    """
    if where is None:
        yield
        return
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or not host or int(port) > 65_535:
        raise click.UsageError(f"--metrics takes HOST:PORT, as in 127.0.0.1:9101, not {where!r}.")
    try:
        from prometheus_client import start_http_server

        from andon.service.metrics import WorkMetrics
    except ImportError as error:
        raise ConfigurationError(
            "Metrics need prometheus-client: pip install 'andon[server]'."
        ) from error
    counted = WorkMetrics()
    app.measure(counted)
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), counted.registry)
    except OSError as error:
        raise ConfigurationError(
            f"Cannot serve metrics on {where}: {error.strerror}. Name another --metrics HOST:PORT."
        ) from error
    logger.info("Metrics are at http://%s:%s/metrics.", host, server.server_port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def settings_of(
    *,
    queues: tuple[str, ...] = (),
    strict: bool = False,
    concurrency: int | None = None,
    per_type: int | None = None,
    children: int | None = None,
    worker_id: str | None = None,
    lease: float | None = None,
    grace: float | None = None,
    pass_env: tuple[str, ...] = (),
    trust: tuple[str, ...] = (),
) -> WorkerSettings:
    """The settings that were given. Raises `click.UsageError` for what makes no sense."""
    settings = WorkerSettings(queues=comma_separated(queues), strict=strict)
    if strict and not settings.get("queues"):
        raise click.UsageError("--strict needs --queues, in the order they are to be asked.")
    if concurrency is not None:
        settings["concurrency"] = concurrency
    if per_type is not None:
        settings["per_type"] = per_type
    if children is not None:
        settings["children"] = children
    if worker_id is not None:
        settings["id"] = worker_id
    if lease is not None:
        settings["lease"] = lease
    if grace is not None:
        settings["shutdown_grace"] = grace
    if pass_env:
        settings["pass_env"] = comma_separated(pass_env)
    if trust:
        settings["trusted_keys"] = trust
    return settings


async def run(app: Andon, settings: WorkerSettings, *, timekeeper: bool = True) -> None:
    """Work until told to stop by a signal."""
    made = await app.worker(**settings)
    engine = await app.connections.engine()
    if timekeeper:
        engine.keep_time()
    queues = ", ".join(made.config.queues) or "every queue"
    with Signals(made):
        # Logged after the signal handlers are installed, so that a program that waits for this line
        # may send a signal.
        logger.info(
            "Worker %s runs %d task types of %s from %s.",
            made.id,
            len(app.registry),
            shown(app.url),
            queues,
        )
        if made.config.trusted_keys is not None:
            logger.info(
                "It runs only tasks signed with key %s.", ", ".join(made.config.trusted_keys.ids)
            )
        try:
            await made.run(signals=False)
        except Exception as error:
            fault = app.lifespan.fault_of(error)
            if fault is None:
                raise
            raise HookFailed(fault) from error
    logger.info("Worker %s has left in good order.", made.id)
