"""Artifacts: what runs left behind, listed, fetched, and uploaded or registered by their runs."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from litestar import Router, get, post, put
from litestar.params import FromPath, HeaderParameter, JSONBody, QueryParameter

from andon.artifacts.base import Artifact, ArtifactEntries, ArtifactNotFound
from andon.artifacts.listing import listed
from andon.engine.base import Engine
from andon.lifecycle.admission import LATEST_MS
from andon.lifecycle.bounds import LARGEST_COUNT
from andon.lifecycle.faces.fields import iso, maybe_iso
from andon.model.errors import TaskNotFound
from andon.service.answers import KeptFile, KeptFiles, Registered, SignedUrl
from andon.service.calls import Call
from andon.service.files import (
    Download,
    Encoded,
    Ranged,
    body_pieces,
    check_length,
    check_readable,
    etag_of,
    part_of,
)
from andon.service.origin import in_header, origin_of
from andon.service.problems import Problem, invalid
from andon.service.routes.runs import of_path
from andon.service.submitting import moment_ms
from andon.service.trust import signedurls

OfRun = Annotated[
    int | None,
    QueryParameter(ge=0, le=LARGEST_COUNT, description="Of the run with this number only."),
]


_LONGEST_S = 1e10
_DIGITS = 19


class NewArtifact(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a run leaves behind."""

    kind: Literal["file", "reference", "link", "error"] = "file"
    content_type: str = "application/octet-stream"
    expires_in: float | None = None  #: seconds until it is deleted
    expires_at: str | int | None = None  #: ISO 8601 with a zone, or ms since 1970
    url: str = ""  #: of a reference: where it leads
    target: str = ""  #: of a link: the artifact of the same run that it stands for
    reason: str = ""  #: of an error: why there is nothing, in a word
    message: str = ""  #: of an error: why, for people


async def readable(request: Call, task_id: str) -> None:
    """Raise unless there is such a task, and the caller may read it."""
    [task] = await request.service.engine.get([task_id])
    if task is None:
        raise TaskNotFound(task_id)
    request.need(f"tasks:read:{task.definition.queue}")


@get("/tasks/{task_id:str}/artifacts", summary="List a task's artifacts")
async def list_artifacts(
    request: Call,
    task_id: FromPath[str],
    *,
    run: OfRun = None,
    limit: Annotated[
        int | None, QueryParameter(ge=1, description="At most so many; default: what there may be.")
    ] = None,
    cursor: Annotated[str, QueryParameter(description="Of the page before.")] = "",
) -> KeptFiles:
    """What the task's runs left behind, by run and name; without the expired."""
    await readable(request, task_id)
    most = request.service.settings.max_page
    found, after = await listed(
        await request.artifacts(), task_id, run, cursor=cursor, limit=min(limit or most, most)
    )
    return KeptFiles([KeptFile(**_shown(artifact)) for artifact in found], after)


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
    ranged: Ranged = None,
    if_match: Annotated[
        str | None,
        HeaderParameter(name="If-Match", description="Only this content, by its ETag; else 412."),
    ] = None,
) -> Download | None:
    """Its content, with its own content type, of the newest run that has one of that name.

    `ETag` is its SHA-256; `Repr-Digest` has the same as RFC 9530 writes it. A slash in the name is
    written %2F. A link gives what it stands for, a reference redirects (303), an error is 424.
    """
    await readable(request, task_id)
    kept = await request.artifacts()
    artifact = await kept.follow(await _find(request.service.engine, kept, task_id, name, run))
    if artifact.kind == "reference":
        request.status = 303
        request.answer_headers.append((b"location", in_header(artifact.url)))
        return None
    check_readable(artifact)
    if if_match not in (None, "", "*", etag_of(artifact)):
        raise Problem(
            412,
            "artifact-replaced",
            "Artifact replaced",
            f"Artifact {name!r} of task {task_id!r} has another content by now.",
        )
    part = part_of(artifact, ranged)
    return Download(request.service, artifact, kept.read(artifact, part.start), part)


@get("/tasks/{task_id:str}/artifacts/{name:str}/url", summary="Get a URL for an artifact")
async def signed_url(
    request: Call, task_id: FromPath[str], name: FromPath[str], *, run: OfRun = None
) -> SignedUrl:
    """A URL under which it can be fetched for half an hour, without a token. That of a reference is
    its own."""
    await readable(request, task_id)
    kept = await request.artifacts()
    artifact = await kept.follow(await _find(request.service.engine, kept, task_id, name, run))
    service = request.service
    expires_at = service.engine.now() + round(signedurls.GET_S * 1000)
    if artifact.kind == "reference":
        return SignedUrl(artifact.url, iso(expires_at))
    check_readable(artifact)
    path = await service.access.signed_path("GET", artifact, expires_at=expires_at)
    return SignedUrl(origin_of(request.scope, service) + path, iso(expires_at))


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
    encoding: Encoded = None,
) -> KeptFile:
    """Keep the body as a file of the run, which must hold its task still, or have lost it not long
    ago otherwise than by its own report.

    It is there once this is answered, whole or not at all; a file of the same name is replaced.
    Compare the answer's `sha256` with that of what was sent.
    """
    who = of_path(request, task_id, number)
    service = request.service
    limit = service.settings.max_artifact
    check_length(request, limit)
    await service.runs.leaving(who)
    kept = await request.artifacts()

    async def content() -> AsyncIterator[bytes]:
        async for piece in body_pieces(request, limit):
            yield piece
        await service.runs.leaving(
            who
        )  # a large body takes a while, and then nothing of it is kept

    artifact = await kept.put(
        who.task,
        who.number,
        name,
        content(),
        content_type=content_type or "application/octet-stream",
        encoding=encoding or "",
        expires_at=_expiry(service.engine, expires_in, expires_at),
    )
    return KeptFile(**_shown(artifact))


@post(
    "/runs/{task_id:str}/{number:str}/artifacts/{name:str}",
    status_code=200,
    summary="Register an artifact",
)
async def register(
    request: Call,
    task_id: FromPath[str],
    number: FromPath[str],
    name: FromPath[str],
    data: JSONBody[NewArtifact],
) -> Registered:
    """Say what the run leaves behind under a name: a file whose bytes come later, a reference, a
    link, or the reason why there is none. Who may: as with an upload.

    Again it is the same, with the later of both expiries; one that differs is refused (409). A
    reference may get another URL, and may become a link.
    """
    who = of_path(request, task_id, number)
    service = request.service
    await service.runs.leaving(who)
    kept = await request.artifacts()
    now = service.engine.now()
    artifact = await kept.register(
        Artifact(
            task=who.task,
            run=who.number,
            name=name,
            content_type=data.content_type,
            created_at=now,
            expires_at=_expiry(service.engine, data.expires_in, data.expires_at),
            kind=data.kind,
            url=data.url,
            target=data.target,
            reason=data.reason,
            message=data.message,
        )
    )
    if artifact.kind != "file":
        return Registered(**_shown(artifact))
    until = now + round(signedurls.PUT_S * 1000)
    path = await service.access.signed_path("PUT", artifact, expires_at=until)
    put_url = origin_of(request.scope, service) + path
    return Registered(**_shown(artifact), put_url=put_url, put_until=iso(until))


def _expiry(engine: Engine, seconds: float | None, moment: str | int | None) -> int | None:
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
    if isinstance(moment, str) and moment.isascii() and moment.isdecimal():
        moment = int(moment) if len(moment) < _DIGITS else moment
    return moment_ms("expires_at", moment)


async def _find(
    engine: Engine, kept: ArtifactEntries, task_id: str, name: str, run: int | None
) -> Artifact:
    if run is None:
        return await kept.latest(task_id, name)
    artifact = await kept.get(task_id, run, name)
    if artifact is None or not artifact.is_shown or artifact.is_over(engine.now()):
        raise ArtifactNotFound(task_id, name)
    return artifact


def _shown(artifact: Artifact) -> dict[str, Any]:
    return {
        "task": artifact.task,
        "run": artifact.run,
        "name": artifact.name,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "content_type": artifact.content_type,
        "created_at": iso(artifact.created_at),
        "expires_at": maybe_iso(artifact.expires_at),
        "kind": artifact.kind,
        "present": artifact.is_present,
        "encoding": artifact.encoding,
        "url": artifact.url,
        "target": artifact.target,
        "reason": artifact.reason,
        "message": artifact.message,
    }


router = Router(
    "/api/v1",
    route_handlers=[list_artifacts, download, signed_url, upload, register],
    tags=["artifacts"],
)
