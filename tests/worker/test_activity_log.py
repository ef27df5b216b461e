"""What the log says of runs: failures with their exception, starts and ends at INFO."""

import asyncio
import logging

import pytest

from andon import Andon, Retry, Snooze, Terminate
from andon.testing import running, virtual_time
from andon.worker.logs.activity import RUNS


@pytest.fixture
def app() -> Andon:
    return Andon("memory://")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.name == RUNS]


@virtual_time
async def test_a_run_that_is_retried_is_a_warning_that_says_when(app: Andon, caplog):
    @app.task(name="fetch", max_retries=1, retry_delay=60, backoff="constant")
    async def fetch() -> None:
        raise ConnectionError("no route")

    async with running(app) as t:
        handle = await fetch.submit()
        await t.advance(seconds=1)
        [(level, text)] = lines(caplog)
        assert level == "WARNING"
        assert text.startswith(f"Task {handle.id} (fetch) failed after ")
        assert "with NETWORK_ERROR: no route" in text
        assert "retried in 60 s" in text


@virtual_time
async def test_a_retry_with_jitter_says_by_when(app: Andon, caplog):
    @app.task(name="fetch", max_retries=1, retry_delay=10)
    async def fetch() -> None:
        raise ConnectionError("no route")

    async with running(app) as t:
        await fetch.submit()
        await t.advance(seconds=0)
        assert "retried within 10 s" in lines(caplog)[0][1]


@virtual_time
async def test_the_end_of_a_task_is_an_error_with_the_exception_and_its_fields(app: Andon, caplog):
    @app.task(name="fetch", queue="net", max_retries=0)
    async def fetch() -> None:
        raise ValueError("bad")

    async with running(app) as t:
        handle = await fetch.submit()
        await t.run_until(handle)
    [record] = [r for r in caplog.records if r.name == RUNS]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError
    assert "in fetch" in caplog.text
    fields = {name: record.__dict__[name] for name in ("task_id", "task_name", "run", "queue")}
    assert fields == {"task_id": handle.id, "task_name": "fetch", "run": 0, "queue": "net"}
    assert record.__dict__["duration"] >= 0


@virtual_time
async def test_a_task_that_is_discarded_at_its_failure_is_an_error_too(app: Andon, caplog):
    @app.task(name="fetch", max_retries=0, discard_states=("failed",))
    async def fetch() -> None:
        raise ValueError("bad")

    async with running(app) as t:
        await fetch.submit()
        await t.run_until_idle()
    assert [level for level, _ in lines(caplog)] == ["ERROR"]


@pytest.mark.parametrize(
    ("raised", "level"),
    [(Retry(5), "WARNING"), (Terminate("enough"), "ERROR"), (Snooze(5), None)],
)
@virtual_time
async def test_what_a_handler_asked_for_is_logged_as_what_it_is(app: Andon, caplog, raised, level):
    @app.task(name="ask")
    async def ask() -> None:
        raise raised

    async with running(app) as t:
        await ask.submit()
        await t.advance(seconds=1)
    assert [found for found, _ in lines(caplog)] == ([level] if level else [])


@virtual_time
async def test_starts_and_ends_are_said_at_info(app: Andon, caplog):
    caplog.set_level(logging.INFO, RUNS)

    @app.task(name="work")
    async def work() -> None: ...

    async with running(app) as t:
        await t.run_until(await work.submit())
    said = [text.split(" ", 2)[2] for _, text in lines(caplog)]
    assert said[0] == "starts: work, try 1."
    assert said[1].startswith("(work) completed after ")


@virtual_time
async def test_a_cancelled_run_is_no_failure(app: Andon, caplog):
    @app.task(name="sleep")
    async def sleep() -> None:
        await asyncio.sleep(3600)

    async with running(app) as t:
        handle = await sleep.submit()
        await t.advance(seconds=1)
        await handle.cancel()
        await t.run_until(handle)
    assert lines(caplog) == []


@virtual_time
async def test_a_logging_handler_that_raises_costs_no_report(app: Andon):
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no disk")

    @app.task(name="fetch", max_retries=0)
    async def fetch() -> None:
        raise ValueError("bad")

    broken = Broken()
    logging.getLogger(RUNS).addHandler(broken)
    try:
        async with running(app) as t:
            task = await t.run_until(await fetch.submit())
            assert task.error is not None
    finally:
        logging.getLogger(RUNS).removeHandler(broken)


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [ValueError("half of \udcff"), Unreadable()])
@virtual_time
async def test_an_exception_that_cannot_be_shown_is_logged_as_it_is_stored(
    app: Andon, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    @app.task(name="fetch", max_retries=0)
    async def fetch() -> None:
        raise error

    async with running(app) as t:
        await t.run_until(await fetch.submit())
    [record] = [r for r in caplog.records if r.name == RUNS]
    assert record.exc_info is not None
    caplog.text.encode()
    assert "in fetch" in caplog.text
