"""Artifacts in each kind of place: a folder, an S3 server, PostgreSQL, and memory."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Servers
from servers.s3 import bucket_url

from andon.artifacts.blobs import Blobs
from andon.artifacts.kept import KeptArtifacts
from andon.artifacts.place import open_blobs
from andon.stores.postgres.store import PostgresStore

_names = itertools.count()


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """A bucket on an S3 server of this test process."""
    with bucket_url() as url:
        yield url


@pytest.fixture(params=["folder", "s3", "postgres", "memory"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner
) -> Iterator[Blobs]:
    """A place that is empty."""
    if request.param == "folder":
        yield open_blobs(f"file://{tmp_path / 'left behind'}")
    elif request.param == "memory":
        yield open_blobs("memory:")
    elif request.param == "s3":
        yield open_blobs(request.getfixturevalue("s3_url"))
    else:
        store = request.getfixturevalue("postgres_store")
        yield store.blobs()


@pytest.fixture
def postgres_store(
    servers: Servers, tmp_path: Path, runner: asyncio.Runner
) -> Iterator[PostgresStore]:
    store = PostgresStore(servers.fresh_url("postgres", tmp_path))
    runner.run(store.open())
    yield store
    runner.run(store.close())


class Kept(KeptArtifacts):
    """With a clock that tests set, and short words."""

    def __init__(self, place: Blobs) -> None:
        self.ms = 1_000_000
        super().__init__(place, lambda: self.ms, f"n{os.getpid()}-{next(_names)}")

    async def left(self, name: str, content: bytes = b"x", **more: Any) -> None:
        await self.put(more.pop("task", "t"), more.pop("run", 0), name, pieces(content), **more)

    async def content(self, task: str, name: str, start: int = 0) -> bytes:
        artifact = await self.latest(task, name)
        return b"".join([piece async for piece in self.read(artifact, start)])


@pytest.fixture
def kept(place: Blobs) -> Kept:
    return Kept(place)


async def pieces(content: bytes, size: int = 7) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]
