"""What runs leave behind: artifacts of every kind of handler, and what they logged."""

import asyncio
import hashlib
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from andon.artifacts import Artifact
from andon.model.words import State
from andon.worker.context import Context
from andon.worker.logs import capture

from . import children
from .kit import WAIT, Kit, result_of

log = logging.getLogger("shop.orders")


@pytest.fixture(autouse=True)
def lets_information_through() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(before)


async def content(kit: Kit, task_id: str, name: str) -> tuple[Artifact, bytes]:
    artifacts = await kit.local.artifacts()
    artifact = await artifacts.latest(task_id, name)
    return artifact, b"".join([piece async for piece in artifacts.read(artifact)])


async def logged(kit: Kit, task_id: str, count: int, run: int = 0) -> list[tuple[str, str]]:
    """The first lines that a run logged: level and text."""
    artifacts = await kit.local.artifacts()
    async with asyncio.timeout(WAIT):
        while len(lines := (await artifacts.read_log(task_id, run)).lines) < count:  # noqa: ASYNC110 - another task keeps them
            await asyncio.sleep(0.02)
    return [(line.level, line.text) for line in lines]


async def test_an_async_handler_keeps_bytes_text_files_and_streams(kit: Kit, tmp_path: Path):
    report = tmp_path / "report.csv"
    report.write_bytes(b"a,b\n1,2\n")

    async def stream() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async def job(ctx: Context) -> None:
        await ctx.artifact("raw", b"\x00\x01")
        await ctx.artifact("note.txt", "grün")
        await ctx.artifact("report.csv", report)
        await ctx.artifact("streamed", stream(), content_type="x/y")

    kit.add(job)
    await kit.start()
    done = await kit.run("job")
    assert done.state is State.COMPLETED, done.status.last_error
    assert (await content(kit, done.id, "raw"))[1] == b"\x00\x01"
    note, text = await content(kit, done.id, "note.txt")
    assert (note.content_type, text.decode()) == ("text/plain", "grün")
    table, lines = await content(kit, done.id, "report.csv")
    assert (table.content_type, lines) == ("text/csv", report.read_bytes())
    streamed, both = await content(kit, done.id, "streamed")
    assert (streamed.content_type, both) == ("x/y", b"onetwo")


async def test_a_sync_handler_keeps_artifacts_from_its_thread(kit: Kit):
    def job(ctx: Context) -> int:
        return ctx.artifact_blocking("out", b"12345", expires_in=60).size

    kit.add(job)
    await kit.start()
    done = await kit.run("job")
    assert done.result == b"5"
    kept, _ = await content(kit, done.id, "out")
    assert kept.expires_at is not None
    assert kept.expires_at - kept.created_at <= 60_000


async def test_a_name_that_cannot_be_fails_the_run_and_keeps_nothing(kit: Kit):
    async def job(ctx: Context) -> None:
        await ctx.artifact("", b"x")

    kit.add(job)
    await kit.start()
    done = await kit.run("job")
    assert done.state is State.FAILED
    assert await (await kit.local.artifacts()).find(done.id) == []


async def test_what_a_handler_logs_is_kept_with_its_run_whichever_logger_it_used(kit: Kit):
    async def job(ctx: Context) -> None:
        ctx.log.warning("late")
        log.info("order %d", 7)

    kit.add(job)
    await kit.start()
    done = await kit.run("job")
    assert await logged(kit, done.id, 2) == [("warning", "late"), ("info", "order 7")]


async def test_a_log_can_be_followed_while_its_handler_runs(kit: Kit):
    go_on = asyncio.Event()

    async def job(ctx: Context) -> None:
        ctx.log.info("begun")
        await go_on.wait()
        ctx.log.info("done")

    kit.add(job)
    await kit.start()
    task_id = await kit.submit("job")
    assert await logged(kit, task_id, 1) == [("info", "begun")]
    go_on.set()
    await kit.end(task_id)
    assert await logged(kit, task_id, 2) == [("info", "begun"), ("info", "done")]


async def test_each_run_has_a_log_of_its_own(kit: Kit):
    async def job(ctx: Context) -> None:
        ctx.log.info("run %d", ctx.run)
        raise ConnectionError("no route")

    kit.add(job)
    await kit.start()
    done = await kit.run("job", max_retries=1, retry_delay=None)
    assert await logged(kit, done.id, 1, run=0) == [("info", "run 0")]
    assert await logged(kit, done.id, 1, run=1) == [("info", "run 1")]


async def test_what_was_logged_last_is_kept_when_the_worker_stops(kit: Kit):
    async def job(ctx: Context) -> None:
        ctx.log.info("last words")

    kit.add(job)
    worker = await kit.start()
    done = await kit.run("job")
    await worker.stop()
    page = await (await kit.local.artifacts()).read_log(done.id, 0)
    assert [line.text for line in page.lines] == ["last words"]


async def test_a_log_without_bounds_is_cut_and_says_so(kit: Kit, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(capture, "MAX_LOG", 1_000)

    async def job(ctx: Context) -> None:
        for number in range(100):
            ctx.log.info("%04d %s", number, "x" * 45)

    kit.add(job)
    worker = await kit.start()
    done = await kit.run("job")
    await worker.stop()
    page = await (await kit.local.artifacts()).read_log(done.id, 0)
    assert len(page.lines) == 22
    assert page.lines[-1].text == "79 more lines were not kept (over 1000 bytes)."


async def test_a_handler_that_logs_goes_on_while_logs_cannot_be_kept(kit: Kit):
    artifacts = await kit.local.artifacts()
    real, failures = artifacts.append_log, iter([True, True, False])

    async def failing(*args: object) -> None:
        if next(failures, False):
            from andon.model.errors import StoreUnavailable

            raise StoreUnavailable("the disk is away")
        await real(*args)  # type: ignore[arg-type]

    artifacts.append_log = failing  # type: ignore[method-assign]

    async def job(ctx: Context) -> None:
        ctx.log.info("hello")

    kit.add(job)
    await kit.start()
    done = await kit.run("job")
    assert done.state is State.COMPLETED
    assert await logged(kit, done.id, 1) == [("info", "hello")]


@pytest.mark.slow
async def test_a_child_process_keeps_artifacts_through_the_worker(kit: Kit, tmp_path: Path):
    kit.registry = children.registry
    await kit.start(app=f"{children.__name__}:registry")
    done = await kit.run("leaves", "out.bin")
    assert result_of(done) == len(b"from a child")
    assert (await content(kit, done.id, "out.bin"))[1] == b"from a child"
    assert ("info", "leaving out.bin") in await logged(kit, done.id, 1)
    path = tmp_path / "big"
    path.write_bytes(b"x" * 3_000_000)
    copied = await kit.run("leaves_file", str(path))
    assert result_of(copied) == hashlib.sha256(path.read_bytes()).hexdigest()
    refused = await kit.run("leaves", "")
    assert refused.status.last_error is not None
    assert "artifact name" in refused.status.last_error.message


async def test_what_a_command_writes_to_stderr_is_its_log(kit: Kit):
    script = "import sys; print('careful', file=sys.stderr); print(1)"
    kit.add(None, name="script", kind="command", argv=(sys.executable, "-S", "-c", script))
    await kit.start()
    done = await kit.run("script")
    assert await logged(kit, done.id, 1) == [("info", "careful")]
