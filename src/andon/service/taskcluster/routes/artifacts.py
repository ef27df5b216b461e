"""Artifacts: created by runs, finished, listed, and fetched by way of a URL."""

from typing import Any, cast

from andon.artifacts.base import Artifact
from andon.lifecycle.leaving import may_leave
from andon.service.origin import origin_of
from andon.service.taskcluster import paging
from andon.service.taskcluster.artifact_info import info_of, storage_type
from andon.service.taskcluster.artifacts import (
    Place,
    behind,
    content_of,
    entry_at,
    entry_of,
    redirect_to,
)
from andon.service.taskcluster.asked import Answer, Asked
from andon.service.taskcluster.claims import run_of
from andon.service.taskcluster.errors import ApiError, conflict, input_error, not_found
from andon.service.taskcluster.inputs import AnyArtifact, Finished
from andon.service.taskcluster.reading import find
from andon.service.taskcluster.table import route
from andon.service.taskcluster.times import written
from andon.service.taskcluster.trust.taskcredentials import may_speak_for
from andon.service.trust import signedurls

_OF_RUN = "/task/<taskId>/runs/<runId>/artifacts/<name*>"
_MAKE = "queue:create-artifact:<taskId>/<runId>"
_GET = "queue:get-artifact:<name>"
_LIST_OF_RUN = "queue:list-artifacts:<taskId>:<runId>"
_LIST_LATEST = "queue:list-artifacts:<taskId>"
_SKEW_MS = 15 * 60 * 1000


@route(
    "createArtifact",
    "POST",
    _OF_RUN,
    takes=cast("type[Any]", AnyArtifact),
    needs=_MAKE,
    late=True,
)
async def create_artifact(asked: Asked, data: AnyArtifact) -> dict[str, Any]:
    """Say what a run leaves behind under a name. A file's bytes go to the URL in the answer."""
    now, service = asked.engine.now(), asked.service
    if data.expires.ms < now - _SKEW_MS:
        raise input_error("expires is in the past.")
    place = await _made_by(asked)
    run = place.run
    _require_speaks_for(asked, place)
    ends = place.task.definition.expires_at
    if ends is not None and data.expires.ms > ends:
        raise input_error(f"expires is after that of the task, {written(ends)}.")
    if not may_leave(run, now, round(service.settings.artifact_grace * 1000)):
        raise conflict(
            f"Run {run.number} of task {place.task.id} has ended, and leaves nothing more behind."
        )
    kept = await asked.engine.artifacts()
    artifact = await kept.register(entry_of(data, place, asked.params["name"], now))
    if artifact.kind != "file":
        return {"storageType": artifact.kind}
    until = now + round(signedurls.PUT_S * 1000)
    path = await service.access.signed_path("PUT", artifact, expires_at=until)
    return {
        "storageType": storage_type(artifact),
        "putUrl": origin_of(asked.scope, service) + path,
        "expires": written(until),
        "contentType": artifact.content_type,
    }


async def _made_by(asked: Asked) -> Place:
    """The run in the path, which makes an artifact. Raises `ApiError` (400)."""
    try:
        task, _ = await find(asked.engine, asked.task_id)
        run = run_of(task, int(asked.params["runId"]))
    except ApiError as error:
        raise input_error(str(error)) from None
    if run.claimed_at is None:
        raise input_error(f"Run {run.number} of task {task.id} was never claimed.")
    return Place(task, run)


def _require_speaks_for(asked: Asked, place: Place) -> None:
    """Raise `ApiError` (403) unless the caller may make artifacts of the run."""
    asked.require()
    task, run = place
    if not may_speak_for(asked.caller, task.id, run.number, run.worker):
        raise ApiError(
            "InsufficientScopes",
            f"Client {asked.caller.client_id} speaks for another run than run {run.number} of "
            f"task {task.id}, which {run.worker} has claimed.",
        )


@route("finishArtifact", "PUT", _OF_RUN, takes=Finished, needs=_MAKE, late=True)
async def finish_artifact(asked: Asked, data: Finished) -> Answer:
    """Say that the bytes of an object artifact are there."""
    place = await _of_run(asked)
    _require_speaks_for(asked, place)
    kept = await asked.engine.artifacts()
    name = asked.params["name"]
    found = await kept.get(place.task.id, place.run.number, name)
    if found is None:
        raise not_found(f"Run {place.run.number} of task {place.task.id} has no artifact {name!r}.")
    if not found.upload:
        raise input_error(f"Artifact {name!r} is no object artifact; only those are finished.")
    await kept.finish(place.task.id, place.run.number, name, data.upload_id)
    return Answer(204, None)


@route("getArtifact", "GET", _OF_RUN, needs=_GET)
async def get_artifact(asked: Asked, _: None) -> Answer:
    """Be sent to where an artifact is."""
    return await redirect_to(asked, await _found(asked, await _of_run(asked)))


@route("getLatestArtifact", "GET", "/task/<taskId>/artifacts/<name*>", needs=_GET)
async def get_latest_artifact(asked: Asked, _: None) -> Answer:
    """The same of the task's last run."""
    return await redirect_to(asked, await _found(asked, await _latest(asked)))


@route("artifact", "GET", "/task/<taskId>/runs/<runId>/artifact-content/<name*>", needs=_GET)
async def artifact(asked: Asked, _: None) -> dict[str, Any]:
    """Where an artifact is, without being sent there."""
    return await content_of(asked, await _found(asked, await _of_run(asked)))


@route("latestArtifact", "GET", "/task/<taskId>/artifact-content/<name*>", needs=_GET)
async def latest_artifact(asked: Asked, _: None) -> dict[str, Any]:
    """The same of the task's last run."""
    return await content_of(asked, await _found(asked, await _latest(asked)))


@route(
    "artifactInfo",
    "GET",
    "/task/<taskId>/runs/<runId>/artifact-info/<name*>",
    needs=_LIST_OF_RUN,
)
async def artifact_info(asked: Asked, _: None) -> dict[str, Any]:
    """What an artifact is."""
    return await _info(asked, await _of_run(asked))


@route("latestArtifactInfo", "GET", "/task/<taskId>/artifact-info/<name*>", needs=_LIST_LATEST)
async def latest_artifact_info(asked: Asked, _: None) -> dict[str, Any]:
    """The same of the task's last run."""
    return await _info(asked, await _latest(asked))


@route(
    "listArtifacts",
    "GET",
    "/task/<taskId>/runs/<runId>/artifacts",
    needs=_LIST_OF_RUN,
    paged=True,
)
async def list_artifacts(asked: Asked, _: None) -> dict[str, Any]:
    """What a run left behind, by name."""
    return await _list(asked, await _of_run(asked))


@route("listLatestArtifacts", "GET", "/task/<taskId>/artifacts", needs=_LIST_LATEST, paged=True)
async def list_latest_artifacts(asked: Asked, _: None) -> dict[str, Any]:
    """What the task's last run left behind, by name."""
    return await _list(asked, await _latest(asked))


async def _of_run(asked: Asked) -> Place:
    """The run that the path names. Raises `ApiError` (404)."""
    task, _ = await find(asked.engine, asked.task_id)
    return Place(task, run_of(task, int(asked.params["runId"])))


async def _latest(asked: Asked) -> Place:
    """The last run of the task. Raises `ApiError` (404)."""
    task, _ = await find(asked.engine, asked.task_id)
    if not task.status.runs:
        raise not_found(f"Task {task.id} has no run yet.")
    return Place(task, task.status.runs[-1])


async def _found(asked: Asked, place: Place) -> Artifact:
    kept = await asked.engine.artifacts()
    return await behind(kept, asked, await entry_at(kept, asked, place))


async def _info(asked: Asked, place: Place) -> dict[str, Any]:
    kept = await asked.engine.artifacts()
    return info_of(await entry_at(kept, asked, place), place.task)


async def _list(asked: Asked, place: Place) -> dict[str, Any]:
    listed = f"artifacts {place.task.id} {place.run.number}"
    kept = await asked.engine.artifacts()
    page = await kept.page(
        place.task.id, place.run.number, after=asked.place(listed), limit=asked.rows()
    )
    answer: dict[str, Any] = {
        "artifacts": [info_of(artifact, place.task) for artifact in page.artifacts]
    }
    if page.after:
        answer["continuationToken"] = paging.token_for(listed, page.after)
    return answer


ROUTES = [
    create_artifact,
    finish_artifact,
    list_artifacts,
    list_latest_artifacts,
    artifact_info,
    latest_artifact_info,
    artifact,
    latest_artifact,
    get_artifact,
    get_latest_artifact,
]
