"""Artifacts in each kind of place: a folder, and an S3 server."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.s3 import bucket_url

from andon.artifacts.kept import KeptArtifacts
from andon.artifacts.place import open_blobs

_names = itertools.count()


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """A bucket on an S3 server of this test process."""
    with bucket_url() as url:
        yield url


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty place."""
    if request.param == "folder":
        return f"file://{tmp_path / 'left behind'}"
    return request.getfixturevalue("s3_url")


class Kept(KeptArtifacts):
    """With a clock that tests set, and short words."""

    def __init__(self, url: str) -> None:
        self.ms = 1_000_000
        super().__init__(open_blobs(url), lambda: self.ms, f"n{os.getpid()}-{next(_names)}")

    async def left(self, name: str, content: bytes = b"x", **more: Any) -> None:
        await self.put(more.pop("task", "t"), more.pop("run", 0), name, pieces(content), **more)

    async def content(self, task: str, name: str, start: int = 0) -> bytes:
        artifact = await self.latest(task, name)
        return b"".join([piece async for piece in self.read(artifact, start)])


@pytest.fixture
def kept(place: str) -> Kept:
    return Kept(place)


async def pieces(content: bytes, size: int = 7) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]
