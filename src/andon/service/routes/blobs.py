"""Uploads and downloads by signed URL. The URL carries the permission, so no token is needed."""

from collections.abc import AsyncIterator
from typing import Annotated

from litestar import Router, get, put
from litestar.params import FromPath, HeaderParameter

from andon.artifacts.base import ArtifactNotFound
from andon.lifecycle.faces.fields import maybe_iso
from andon.service.answers import KeptBytes
from andon.service.calls import Call
from andon.service.files import (
    Download,
    Encoded,
    Ranged,
    body_pieces,
    check_length,
    check_readable,
    part_of,
)
from andon.service.problems import Problem


@get("/{opaque:str}", summary="Fetch a file by a signed URL", media_type="application/octet-stream")
async def fetch(request: Call, opaque: FromPath[str], *, ranged: Ranged = None) -> Download:
    """The file that the URL was signed for, with its own content type and encoding."""
    service = request.service
    signed = await service.access.signed(opaque, "GET")
    kept = await request.artifacts()
    artifact = await kept.get(signed.task, signed.run, signed.name)
    if artifact is None or artifact.is_over(service.engine.now()):
        raise ArtifactNotFound(signed.task, signed.name)
    check_readable(artifact)
    part = part_of(artifact, ranged)
    return Download(service, artifact, kept.read(artifact, part.start), part)


@put("/{opaque:str}", status_code=200, summary="Send a file by a signed URL")
async def send(
    request: Call,
    opaque: FromPath[str],
    *,
    content_type: Annotated[
        str | None, HeaderParameter(name="Content-Type", description="As it was registered.")
    ] = None,
    encoding: Encoded = None,
) -> KeptBytes:
    """Keep the body as the bytes of the file that the URL was signed for, whole or not at all; a
    second time it takes the place of the first."""
    service = request.service
    signed = await service.access.signed(opaque, "PUT")
    if content_type != signed.content_type:
        raise Problem(
            403,
            "other-content-type",
            "Another content type",
            f"This URL takes content of type {signed.content_type!r}; send it as Content-Type.",
        )
    limit = service.settings.max_artifact
    check_length(request, limit)
    kept = await request.artifacts()

    async def content() -> AsyncIterator[bytes]:
        async for piece in body_pieces(request, limit):
            yield piece

    artifact = await kept.fill(
        signed.task, signed.run, signed.name, content(), encoding=encoding or ""
    )
    return KeptBytes(artifact.size, artifact.sha256, maybe_iso(artifact.expires_at))


router = Router("/blobs", route_handlers=[fetch, send], tags=["artifacts"])
