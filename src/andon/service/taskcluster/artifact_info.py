"""The description of an artifact in lists and messages. Pure."""

from typing import Any

from andon.artifacts.base import Artifact
from andon.lifecycle.admission import LATEST_MS
from andon.model.task import Task
from andon.service.taskcluster.times import written


def storage_type(artifact: Artifact) -> str:
    """What clients call its kind."""
    if artifact.kind != "file":
        return artifact.kind
    return "object" if artifact.upload else "s3"


def info_of(artifact: Artifact, task: Task) -> dict[str, Any]:
    """One row of a list of artifacts. One without an expiry of its own is deleted with its task."""
    ends = artifact.expires_at or task.definition.expires_at
    info: dict[str, Any] = {
        "storageType": storage_type(artifact),
        "name": artifact.name,
        "expires": written(ends if ends is not None else LATEST_MS),
        "contentType": artifact.content_type,
    }
    if artifact.kind == "file" and artifact.is_present:
        info["contentLength"] = artifact.size
    return info
