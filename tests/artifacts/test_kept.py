"""What runs leave behind: kept whole, found by task, run and name, gone when it should be."""

import asyncio
import hashlib
import itertools
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from andon.artifacts import ArtifactNotFound, LogLine
from andon.artifacts.blobs import Blobs, once
from andon.artifacts.kept import SHARDS
from andon.artifacts.place import default_place, open_blobs
from andon.engine.artifacts import Keeping
from andon.model.errors import ConfigurationError, InvalidSubmission, StoreUnavailable
from andon.stores.memory.store import MemoryStore

from .conftest import Kept, pieces


async def test_what_was_put_is_read_back_with_its_size_type_and_checksum(kept: Kept):
    content = b"name,count\n" + b"bolt,3\n" * 1000
    put = await kept.put("t", 0, "parts.csv", pieces(content, 999), content_type="text/csv")
    found = await kept.latest("t", "parts.csv")
    assert found == put
    assert (found.size, found.content_type) == (len(content), "text/csv")
    assert found.sha256 == hashlib.sha256(content).hexdigest()
    assert await kept.content("t", "parts.csv") == content
    assert await kept.content("t", "parts.csv", start=11) == content[11:]


async def test_an_empty_file_is_a_file(kept: Kept):
    await kept.left("empty", b"")
    assert await kept.content("t", "empty") == b""


async def test_each_run_has_its_own_and_the_newest_is_the_latest(kept: Kept):
    await kept.left("out", b"first", run=0)
    await kept.left("out", b"second", run=1)
    await kept.left("only", b"here", run=0)
    assert await kept.content("t", "out") == b"second"
    assert await kept.content("t", "only") == b"here"
    assert [(a.run, a.name) for a in await kept.find("t")] == [(0, "only"), (0, "out"), (1, "out")]
    assert [a.name for a in await kept.find("t", 1)] == ["out"]


async def test_one_of_the_same_name_and_run_is_replaced(kept: Kept):
    await kept.left("out", b"draft")
    await kept.left("out", b"final")
    assert await kept.content("t", "out") == b"final"
    assert len(await kept.find("t")) == 1


async def test_an_upload_that_breaks_off_leaves_nothing_and_keeps_what_was_there(kept: Kept):
    await kept.left("out", b"whole")

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError("gone")

    with pytest.raises(Exception, match="gone"):
        await kept.put("t", 0, "out", broken())
    assert await kept.content("t", "out") == b"whole"


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..", "a/b", "%2e%2e", "Übersicht 1.pdf", "."]
)
async def test_any_printable_name_is_only_a_name(kept: Kept, name: str):
    await kept.left(name, b"content")
    assert await kept.content("t", name) == b"content"
    assert [a.name for a in await kept.find("t")] == [name]


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 1_025, "a\x00"])
async def test_a_name_that_cannot_be_is_refused(kept: Kept, name: str):
    with pytest.raises(InvalidSubmission, match="artifact name"):
        await kept.left(name)
    assert await kept.find("t") == []


async def test_what_is_not_there_is_said_to_be_missing(kept: Kept):
    with pytest.raises(ArtifactNotFound, match="andon artifacts list t"):
        await kept.latest("t", "out")
    assert await kept.find("nobody") == []


async def test_an_expired_artifact_is_not_found_and_is_swept(kept: Kept):
    await kept.left("short", expires_at=kept.ms + 10)
    await kept.left("long")
    kept.ms += 10
    assert [a.name for a in await kept.find("t")] == ["long"]
    with pytest.raises(ArtifactNotFound):
        await kept.latest("t", "short")
    assert await swept(kept, alive={"t"}) == 1
    kept.ms -= 10
    assert [a.name for a in await kept.find("t")] == ["long"]


async def test_sweeping_takes_all_of_a_task_that_is_no_more_and_nothing_else(kept: Kept):
    for task in ("a:1", "b"):
        await kept.left("out", task=task, run=0)
        await kept.left("out", task=task, run=1)
        await kept.append_log(task, 0, 0, [LogLine(1, "info", "hello")])
    assert await swept(kept, alive={"b"}) == 1
    assert await kept.find("a:1") == []
    assert (await kept.read_log("a:1", 0)).lines == ()
    assert len(await kept.find("b")) == 2


async def test_a_neighbour_in_the_same_place_is_not_swept(kept: Kept, place: Blobs):
    neighbour = Kept(place)
    await neighbour.left("out", b"theirs")
    assert await swept(kept, alive=set()) == 0
    assert await neighbour.content("t", "out") == b"theirs"


async def test_a_log_is_read_in_order_and_followed_from_where_one_was(kept: Kept):
    await kept.append_log("t", 0, 0, [LogLine(1, "info", "one"), LogLine(2, "error", "two\n2")])
    first = await kept.read_log("t", 0)
    assert [line.text for line in first.lines] == ["one", "two\n2"]
    assert (await kept.read_log("t", 0, first.cursor)).lines == ()
    await kept.append_log("t", 0, 1, [LogLine(3, "info", "three")])
    await kept.append_log("t", 0, 1, [LogLine(3, "info", "three")])  # the reply was lost
    more = await kept.read_log("t", 0, first.cursor)
    assert [line.text for line in more.lines] == ["three"]


async def test_a_long_log_comes_in_pages(kept: Kept):
    for number in range(70):
        await kept.append_log("t", 0, number, [LogLine(number, "info", str(number))])
    texts: list[str] = []
    cursor = ""
    while (page := await kept.read_log("t", 0, cursor)).lines:
        texts.extend(line.text for line in page.lines)
        cursor = page.cursor
    assert texts == [str(number) for number in range(70)]


def test_an_embedded_store_keeps_its_artifacts_beside_it(tmp_path: Path):
    assert default_place(f"sqlite:///{tmp_path}/a.db") == f"file://{tmp_path}/a.db-artifacts"
    assert default_place("redis://localhost") is None


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://host/x", "no place for artifacts"),
        ("file://host/x", "absolute path"),
        ("s3://bucket?endpont=x", "Unknown option 'endpont'"),
    ],
)
def test_a_url_that_names_no_place_is_refused(url: str, told: str):
    with pytest.raises(ConfigurationError, match=told):
        open_blobs(url)


async def swept(kept: Kept, alive: set[str]) -> int:
    async def lives(ids: Sequence[str]) -> set[str]:
        return alive.intersection(ids)

    def failed(task: str, error: Exception) -> None:
        raise AssertionError(task) from error

    return sum([await kept.sweep(shard, lives, failed) for shard in await kept.shards()])


def of_one_shard(count: int) -> list[str]:
    """Ids of tasks that are swept together, in their order."""
    every = (f"t{n}" for n in itertools.count())
    shard = crc32(b"t0") % SHARDS
    together = (task for task in every if crc32(task.encode()) % SHARDS == shard)
    return sorted(itertools.islice(together, count))


@pytest.mark.parametrize("place_of_bad", [0, 2, 4], ids=["first", "middle", "last"])
@pytest.mark.parametrize("lives", [True, False], ids=["expired", "gone"])
async def test_a_task_that_cannot_be_swept_keeps_no_other_from_it(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, place_of_bad: int, lives: bool
):
    tasks = of_one_shard(5)
    for task in tasks:
        await kept.left("out", task=task, expires_at=kept.ms + 10)
    kept.ms += 10
    bad = tasks[place_of_bad]
    method = "_drop_expired" if lives else "forget"
    sweeps = getattr(kept, method)

    async def fails(task: str) -> int:
        if task == bad:
            raise PermissionError("the folder is read-only")
        return await sweeps(task)

    monkeypatch.setattr(kept, method, fails)
    told: list[tuple[str, str]] = []

    async def all_or_none(ids: Sequence[str]) -> set[str]:
        return set(ids) if lives else set()

    [shard] = await kept.shards()
    gone = await kept.sweep(shard, all_or_none, lambda task, why: told.append((task, str(why))))
    assert (gone, told) == (4, [(bad, "the folder is read-only")])
    monkeypatch.undo()
    assert await kept.sweep(shard, all_or_none, lambda task, why: told.append((task, ""))) == 1


@pytest.mark.parametrize("place_of_bad", [0, 1, 2], ids=["first", "middle", "last"])
async def test_a_shard_that_cannot_be_listed_keeps_no_other_from_being_swept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place_of_bad: int,
):
    store = MemoryStore("memory://")
    await store.open()
    keeping = Keeping(store, "memory://", f"file://{tmp_path}/kept", poll_s=0)
    artifacts = await keeping._open()
    for task in ("a", "b", "c"):
        await artifacts.put(task, 0, "out", once(b"x"))
    bad = (await artifacts.shards())[place_of_bad]
    sweep = artifacts.sweep

    async def fails(shard: str, *more: Any) -> int:
        if shard == bad:
            raise PermissionError("the folder is read-only")
        return await sweep(shard, *more)

    monkeypatch.setattr(artifacts, "sweep", fails)
    assert await keeping.sweep_if_due() == 2
    assert f"in shard {bad} failed alone" in caplog.text
    await keeping.close()
    await store.close()


async def test_a_sweep_of_nothing_asks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = MemoryStore("memory://")
    await store.open()
    keeping = Keeping(store, "memory://", f"file://{tmp_path}/kept", poll_s=0)
    artifacts = await keeping._open()
    listed: list[str] = []

    async def folders(folder: str) -> list[str]:
        listed.append(folder)
        return []

    monkeypatch.setattr(artifacts._blobs, "folders", folders)
    assert await keeping.sweep_if_due() == 0
    assert listed == [artifacts._root]
    await keeping.close()
    await store.close()


async def test_sweeping_goes_on_whatever_a_round_meets(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    keeping = Keeping(MemoryStore("memory://"), "memory://", poll_s=0)
    monkeypatch.setattr(keeping, "_look_s", 0.001)
    met: list[Exception] = [
        ConfigurationError("no place"),
        StoreUnavailable("it is away"),
        OSError("the disk is gone"),
        ValueError("no number"),
    ]
    done = asyncio.Event()

    async def sweep_if_due() -> int:
        if met:
            raise met.pop(0)
        done.set()
        return 0

    monkeypatch.setattr(keeping, "sweep_if_due", sweep_if_due)
    sweeping = asyncio.ensure_future(keeping.keep_swept(random.Random(1)))
    async with asyncio.timeout(60):
        await done.wait()
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "artifacts are not swept: it is away",
        "artifacts are not swept: the disk is gone",
        "artifacts are not swept: ValueError: no number",
    ]
