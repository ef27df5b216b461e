"""Artifacts as the queue's clients know them: entries of a storage type, and what to fetch."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from andon.artifacts.base import Artifact, ArtifactConflict, ArtifactEntries, ArtifactNotFound
from andon.model.task import Run, Task
from andon.service.origin import in_header, origin_of
from andon.service.taskcluster.artifact_info import storage_type
from andon.service.taskcluster.asked import Answer, Asked
from andon.service.taskcluster.errors import ApiError, input_error, not_found
from andon.service.taskcluster.inputs import (
    AnyArtifact,
    NewError,
    NewLink,
    NewObject,
    NewReference,
)
from andon.service.trust import signedurls

_STORED = b"x-taskcluster-artifact-storage-type"


class Place(NamedTuple):
    """The run whose artifacts are asked for."""

    task: Task
    run: Run


def entry_of(data: AnyArtifact, place: Place, name: str, now: int) -> Artifact:
    """The entry that a worker asks for. Raises `ApiError` (400) for one that cannot be had here."""
    if isinstance(data, NewObject):
        raise input_error(
            "There is no object service here. Have the worker create s3 artifacts: for "
            "generic-worker, createObjectArtifacts is false."
        )
    entry = Artifact(
        task=place.task.id,
        run=place.run.number,
        name=name,
        content_type="application/json" if isinstance(data, NewError) else data.content_type,
        created_at=now,
        expires_at=data.expires.ms,
    )
    if isinstance(data, NewReference):
        return replace(entry, kind="reference", url=data.url)
    if isinstance(data, NewLink):
        return replace(entry, kind="link", target=data.artifact)
    if isinstance(data, NewError):
        return replace(entry, kind="error", reason=data.reason, message=data.message)
    return entry


async def entry_at(kept: ArtifactEntries, asked: Asked, place: Place) -> Artifact:
    """The artifact that the path names. Raises `ApiError` (404, 410)."""
    name = asked.params["name"]
    found = await kept.get(place.task.id, place.run.number, name)
    if found is None or not found.is_shown:
        raise not_found(f"Run {place.run.number} of task {place.task.id} has no artifact {name!r}.")
    if found.is_over(asked.engine.now()):
        raise ApiError("ResourceExpired", f"Artifact {name!r} of task {place.task.id} has expired.")
    return found


async def behind(kept: ArtifactEntries, asked: Asked, found: Artifact) -> Artifact:
    """What the artifact stands for, for a caller that may get each that is passed.

    Raises `ApiError` (400, 403), `ArtifactNotFound`.
    """
    try:
        last = await kept.follow(found, lambda artifact: asked.require(name=artifact.name))
    except ArtifactConflict as error:
        raise input_error(str(error)) from None
    if not last.is_present:
        raise ArtifactNotFound(last.task, last.name)
    return last


async def url_of(asked: Asked, artifact: Artifact) -> str:
    """Where to fetch it, without credentials."""
    if artifact.kind == "reference":
        return artifact.url
    until = asked.engine.now() + round(signedurls.GET_S * 1000)
    path = await asked.service.access.signed_path("GET", artifact, expires_at=until)
    return origin_of(asked.scope, asked.service) + path


async def redirect_to(asked: Asked, artifact: Artifact) -> Answer:
    """Its URL, for clients that follow redirects and for those that do not; 424 for an error."""
    stored = (_STORED, storage_type(artifact).encode())
    if artifact.kind == "error":
        told = {"reason": artifact.reason, "message": artifact.message}
        return Answer(424, told, (stored,))
    url = await url_of(asked, artifact)
    location = (b"location", in_header(url))
    return Answer(303, {"storageType": storage_type(artifact), "url": url}, (location, stored))


async def content_of(asked: Asked, artifact: Artifact) -> dict[str, Any]:
    """What to fetch, as a document."""
    if artifact.kind == "error":
        return {"storageType": "error", "reason": artifact.reason, "message": artifact.message}
    return {"storageType": storage_type(artifact), "url": await url_of(asked, artifact)}
