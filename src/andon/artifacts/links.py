"""Follows an artifact to the file that it stands for."""

from andon.artifacts import entries
from andon.artifacts.base import Artifact, ArtifactNotFound, Artifacts


async def file_behind(kept: Artifacts, artifact: Artifact) -> Artifact:
    """The file that can be read for an artifact: a link's target, else itself.

    Raises `ArtifactNotFound`, which says where a reference leads and why there is an error in the
    place of a file, and `ArtifactConflict` for links that lead back.
    """

    async def found(name: str) -> Artifact | None:
        of_run = await kept.find(artifact.task, artifact.run)
        return next((one for one in of_run if one.name == name), None)

    behind = await entries.followed(artifact, found)
    if behind.kind == "reference":
        why = f"is a reference to {behind.url}: fetch it there."
    elif behind.kind == "error":
        why = f"could not be kept: {behind.reason}. {behind.message}".rstrip()
    elif not behind.is_present:
        why = "was registered, and its bytes have not come."
    else:
        return behind
    raise ArtifactNotFound(artifact.task, behind.name, why)
