"""Artifacts through a service: as they are kept, however many there are, and by way of links."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.service.kit import serving

from andon import Andon
from andon.artifacts.base import Artifact
from andon.artifacts.links import file_behind
from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.errors import ArtifactNotFound

TEXT = b"line\n" * 100_000


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1_000):
        yield content[start : start + 1_000]


async def test_they_come_as_they_are_kept_in_pages_and_by_links(tmp_path: Path):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, max_page=2) as running:
        async with Andon(running.url) as remote:
            engine = await remote.connections.engine()
            await engine.submit([Submission(id="t", name="x")])
            request = ClaimRequest(
                worker="w", token="c", queues=("default",), limit=1, lease_ms=60_000
            )
            await engine.claim(request)
            kept = await engine.artifacts()
            packed = gzip.compress(TEXT, 0)
            put = await kept.put("t", 0, "log", pieces(packed), encoding="gzip")
            assert (put.encoding, put.size) == ("gzip", len(packed))
            for number in range(4):
                await kept.put("t", 0, f"n{number}", pieces(b"x"))
            names = [artifact.name for artifact in await kept.find("t")]
            assert names == ["log", "n0", "n1", "n2", "n3"]

            here = running.call(running.service.engine.artifacts())
            for name, more in (
                ("l0", {"kind": "link", "target": "log"}),
                ("l1", {"kind": "link", "target": "l0"}),
                ("r", {"kind": "reference", "url": "https://example.org/r"}),
            ):
                entry = {"task": "t", "run": 0, "content_type": "a/b", "created_at": 1, **more}
                running.call(here.register(Artifact(name=name, **entry)))  # type: ignore[arg-type]
            found = await file_behind(kept, await kept.latest("t", "l1"))
            assert found.name == "log"
            content = b"".join([piece async for piece in kept.read(found)])
            assert gzip.decompress(content) == TEXT
            rest = b"".join([piece async for piece in kept.read(found, 1_000)])
            assert rest == packed[1_000:]
            assert await remote.handle("t").read_artifact("l0") == packed
            with pytest.raises(ArtifactNotFound, match=r"https://example\.org/r"):
                await remote.handle("t").read_artifact("r")
            with pytest.raises(ArtifactNotFound):
                [piece async for piece in kept.read(await kept.latest("t", "r"))]
