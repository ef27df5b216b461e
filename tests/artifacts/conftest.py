"""Artifacts in each kind of place: a folder, and an S3 server."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from andon.artifacts.kept import KeptArtifacts
from andon.artifacts.place import open_blobs

BUCKET = "left-behind"
_names = itertools.count()


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """A bucket on an S3 server of this test process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    with mock.patch.dict(os.environ, keys):
        import boto3

        endpoint = f"http://{host}:{port}"
        boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint).create_bucket(
            Bucket=BUCKET
        )
        yield f"s3://{BUCKET}/kept?region=us-east-1&endpoint={endpoint}&allow_http=true"
    server.stop()


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
