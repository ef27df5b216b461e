"""Artifacts and logs: files of any size and log lines that runs keep beside their results.

They live in a folder or an object store, apart from the records, under the task's id and the run's
number. Nothing here is needed to run tasks; a place is opened when something is put into it or
asked for.
"""

from andon.artifacts.base import (
    Artifact,
    ArtifactNotFound,
    Artifacts,
    LogLine,
    LogPage,
)

__all__ = ["Artifact", "ArtifactNotFound", "Artifacts", "LogLine", "LogPage"]
