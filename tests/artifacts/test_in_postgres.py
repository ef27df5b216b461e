"""Files in the database: whole or not there, no more than a task may have, gone with their task."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from servers import Servers

from andon import Andon, Context
from andon.artifacts.blobs import Blobs, once
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Delete
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.stores.memory import MemoryStore
from andon.stores.postgres.files import MOST_PER_TASK, PIECE
from andon.stores.postgres.store import PostgresStore
from andon.stores.registry import open_store

from .conftest import pieces

TASK = "root/00/task"


@pytest.fixture
def blobs(postgres_store: PostgresStore) -> Blobs:
    return postgres_store.blobs()


async def content_of(blobs: Blobs, path: str, start: int = 0) -> bytes:
    return b"".join([piece async for piece in blobs.read(path, start)])


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 5])
async def test_a_file_of_any_number_of_pieces_is_read_from_any_byte(
    blobs: Blobs, runner: asyncio.Runner, size: int
):
    content = bytes(n % 251 for n in range(1000)) * (size // 1000 + 1)
    content = content[:size]
    await blobs.put(f"{TASK}/0/data/a", pieces(content, 300_000))
    for start in {0, 1, size - 1, size, size + 1, PIECE - 1, PIECE, PIECE + 1}:
        if start >= 0:
            assert await content_of(blobs, f"{TASK}/0/data/a", start) == content[start:]


async def test_a_large_file_replaces_a_small_one_and_the_other_way_round(
    blobs: Blobs, runner: asyncio.Runner
):
    path = f"{TASK}/0/data/a"
    for content in (b"small", b"x" * (2 * PIECE + 1), b"y" * (PIECE + 1), b"small again"):
        await blobs.put(path, once(content))
        assert await content_of(blobs, path) == content
    assert await blobs.files(f"{TASK}/0/data") == ["a"]


async def test_a_large_upload_that_breaks_off_leaves_nothing(
    postgres_store: PostgresStore, runner: asyncio.Runner
):
    blobs = postgres_store.blobs()

    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * (2 * PIECE + 1)
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await blobs.put(f"{TASK}/0/data/a", broken())
    with pytest.raises(FileNotFoundError):
        await content_of(blobs, f"{TASK}/0/data/a")
    assert await blobs.files("~") == []


async def test_files_and_folders_are_listed_whatever_they_are_called(
    blobs: Blobs, runner: asyncio.Runner
):
    names = ["a", "a%2F", "a-b", "a0", "A", "zz", "%2E", "_"]
    for name in names:
        await blobs.put(f"root/{name}/file", once(b"1"))
        await blobs.put(f"root/{name}/folder/deep", once(b"1"))
        await blobs.put(f"root/file-{name}", once(b"1"))
        await blobs.put(f"root/{name}x", once(b"1"))
    await blobs.put("roots/a/file", once(b"1"))
    assert await blobs.folders("root") == sorted(names)
    assert set(await blobs.files("root")) == {
        *(f"file-{n}" for n in names),
        *(f"{n}x" for n in names),
    }
    assert await blobs.files("root/a") == ["file"]
    assert await blobs.folders("root/none") == []
    await blobs.clear("root/a")
    assert await blobs.folders("root") == sorted({*names} - {"a"})


async def test_a_task_may_have_so_many_bytes_and_its_neighbour_is_none_the_worse(
    blobs: Blobs, runner: asyncio.Runner
):
    part = b"x" * (MOST_PER_TASK // 4)
    for number in range(3):
        await blobs.put(f"{TASK}/{number}/data/a", once(part))
    with pytest.raises(InvalidSubmission, match="andon storage configure --artifacts"):
        await blobs.put(f"{TASK}/3/data/a", pieces(part + b"xx" * 10, PIECE))
    assert await blobs.files("~") == []
    await blobs.put(f"{TASK}/3/log/1", once(b"still room for this"))
    await blobs.put("root/00/other/0/data/a", once(part))


async def test_a_file_that_goes_while_it_is_read_is_not_cut_short_in_silence(
    blobs: Blobs, runner: asyncio.Runner
):
    await blobs.put(f"{TASK}/0/data/a", once(b"x" * (PIECE + 1)))
    reading = blobs.read(f"{TASK}/0/data/a")
    assert len(await anext(aiter(reading))) == PIECE
    await blobs.delete([f"{TASK}/0/data/a"])
    with pytest.raises(FileNotFoundError):
        [piece async for piece in reading]


async def test_logs_and_artifacts_have_a_place_without_a_word_and_go_with_their_task(
    servers: Servers, tmp_path: Path
):
    app = Andon(servers.fresh_url("postgres", tmp_path))

    @app.task(name="report")
    async def report(ctx: Context) -> int:
        ctx.log.warning("printing")
        return (await ctx.artifact("report.csv", b"a,b\n" * 3)).size

    async with app, asyncio.timeout(100):
        async with app.working():
            handle = await report.submit()
            assert await handle.result() == 12
        engine = await app.engine()
        assert isinstance(engine, LocalEngine)
        assert await engine.keeps_logs()
        artifacts = await engine.artifacts()
        found = await artifacts.latest(handle.id, "report.csv")
        assert b"".join([p async for p in artifacts.read(found)]) == b"a,b\n" * 3
        assert [line.text for line in (await artifacts.read_log(handle.id, 0)).lines] == [
            "printing"
        ]
        await engine.act([handle.id], Delete())
        assert await engine._keeping.sweep_if_due() == 1
        assert await artifacts.find(handle.id) == []
        assert (await artifacts.read_log(handle.id, 0)).lines == ()


async def test_a_place_that_was_named_goes_before_the_database(servers: Servers, tmp_path: Path):
    url = servers.fresh_url("postgres", tmp_path)
    async with Andon(url, artifacts=f"file://{tmp_path}/kept") as app:
        artifacts = await (await app.engine()).artifacts()
        await artifacts.put("t", 0, "a", once(b"x"))
    assert list((tmp_path / "kept").iterdir())


async def test_a_store_without_a_place_says_so_and_writes_nothing(servers: Servers, tmp_path: Path):
    engine = LocalEngine(open_store(servers.fresh_url("redis", tmp_path)))
    await engine.open()
    try:
        assert not await engine.keeps_logs()
        with pytest.raises(ConfigurationError, match="no place"):
            await engine.artifacts()
        assert await engine.store.setting("artifacts-root") is None
    finally:
        await engine.close()


def test_a_store_in_memory_keeps_them_in_memory():
    assert asyncio.run(LocalEngine(MemoryStore("memory://")).keeps_logs())
