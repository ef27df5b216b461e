"""Artifacts: the files that runs left behind, listed, downloaded, and uploaded by their runs."""

from collections.abc import AsyncIterator
from typing import Annotated

from litestar import Router, get, put
from litestar.params import FromPath, HeaderParameter, QueryParameter

from andon.artifacts.base import Artifact, ArtifactNotFound, Artifacts
from andon.engine.base import Engine
from andon.lifecycle.admission import LATEST_MS
from andon.lifecycle.bounds import LARGEST_COUNT
from andon.lifecycle.faces.fields import iso, maybe_iso
from andon.model.errors import TaskNotFound
from andon.service.answers import KeptFile, KeptFiles
from andon.service.calls import Call
from andon.service.files import Download, body_pieces, check_length, etag_of, part_of
from andon.service.problems import Problem, invalid
from andon.service.routes.runs import of_path
from andon.service.submitting import moment_ms

OfRun = Annotated[
    int | None,
    QueryParameter(ge=0, le=LARGEST_COUNT, description="Of the run with this number only."),
]


_LONGEST_S = 1e10
_DIGITS = 19


async def readable(request: Call, task_id: str) -> None:
    """Raise unless there is such a task, and the caller may read it."""
    [task] = await request.service.engine.get([task_id])
    if task is None:
        raise TaskNotFound(task_id)
    request.need(f"tasks:read:{task.definition.queue}")


@get("/tasks/{task_id:str}/artifacts", summary="List a task's artifacts")
async def list_artifacts(request: Call, task_id: FromPath[str], run: OfRun = None) -> KeptFiles:
    """The files that the task's runs left behind, by run and name; without the expired."""
    await readable(request, task_id)
    kept = await request.artifacts()
    return KeptFiles([_shown(artifact) for artifact in await kept.find(task_id, run)])


@get(
    "/tasks/{task_id:str}/artifacts/{name:str}",
    summary="Download an artifact",
    media_type="application/octet-stream",
)
async def download(
    request: Call,
    task_id: FromPath[str],
    name: FromPath[str],
    *,
    run: OfRun = None,
    ranged: Annotated[
        str | None, HeaderParameter(name="Range", description="One range of bytes.")
    ] = None,
    if_match: Annotated[
        str | None,
        HeaderParameter(name="If-Match", description="Only this content, by its ETag; else 412."),
    ] = None,
) -> Download:
    """Its content, with its own content type, of the newest run that has one of that name.

    `ETag` is its SHA-256; `Repr-Digest` has the same as RFC 9530 writes it. A slash in the name is
    written %2F.
    """
    await readable(request, task_id)
    service = request.service
    kept = await request.artifacts()
    artifact = await _find(kept, task_id, name, run)
    if if_match not in (None, "", "*", etag_of(artifact)):
        raise Problem(
            412,
            "artifact-replaced",
            "Artifact replaced",
            f"Artifact {name!r} of task {task_id!r} has another content by now.",
        )
    part = part_of(artifact, ranged)
    return Download(service, artifact, kept.read(artifact, part.start), part)


@put(
    "/runs/{task_id:str}/{number:str}/artifacts/{name:str}",
    status_code=200,
    summary="Upload an artifact",
)
async def upload(
    request: Call,
    task_id: FromPath[str],
    number: FromPath[str],
    name: FromPath[str],
    *,
    expires_in: Annotated[
        float | None, QueryParameter(description="Seconds until it is deleted.")
    ] = None,
    expires_at: Annotated[
        str | None,
        QueryParameter(description="When it is deleted: ISO 8601 with a zone, or ms since 1970."),
    ] = None,
    content_type: Annotated[
        str | None, HeaderParameter(name="Content-Type", description="Kept with it.")
    ] = None,
) -> KeptFile:
    """Keep the body as a file of the run, which must hold its task still.

    It is there once this is answered, whole or not at all; one of the same name is replaced.
    Compare the answer's `sha256` with that of what was sent.
    """
    who = of_path(request, task_id, number)
    service = request.service
    limit = service.settings.max_artifact
    check_length(request, limit)
    await service.runs.held(who)
    kept = await request.artifacts()

    async def content() -> AsyncIterator[bytes]:
        async for piece in body_pieces(request, limit):
            yield piece
        await service.runs.held(who)  # a large body takes a while, and then nothing of it is kept

    artifact = await kept.put(
        who.task,
        who.number,
        name,
        content(),
        content_type=content_type or "application/octet-stream",
        expires_at=_expiry(service.engine, expires_in, expires_at),
    )
    return _shown(artifact)


def _expiry(engine: Engine, seconds: float | None, moment: str | None) -> int | None:
    if seconds is not None and moment is not None:
        raise invalid("Give expires_in or expires_at, not both.", field="expires_in")
    if seconds is not None:
        if not 0 < seconds < _LONGEST_S:
            raise invalid("expires_in is seconds, more than 0.", field="expires_in")
        ends = engine.now() + round(seconds * 1000)
        if ends > LATEST_MS:
            raise invalid("The artifact would expire after the year 9999.", field="expires_in")
        return ends
    if moment is None:
        return None
    is_number = moment.isascii() and moment.isdecimal() and len(moment) < _DIGITS
    return moment_ms("expires_at", int(moment) if is_number else moment)


async def _find(kept: Artifacts, task_id: str, name: str, run: int | None) -> Artifact:
    if run is None:
        return await kept.latest(task_id, name)
    for artifact in await kept.find(task_id, run):
        if artifact.name == name:
            return artifact
    raise ArtifactNotFound(task_id, name)


def _shown(artifact: Artifact) -> KeptFile:
    return KeptFile(
        task=artifact.task,
        run=artifact.run,
        name=artifact.name,
        size=artifact.size,
        sha256=artifact.sha256,
        content_type=artifact.content_type,
        created_at=iso(artifact.created_at),
        expires_at=maybe_iso(artifact.expires_at),
    )


router = Router("/api/v1", route_handlers=[list_artifacts, download, upload], tags=["artifacts"])
