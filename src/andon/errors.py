"""Every error that Andon raises on purpose, all of them `AndonError`s.

    from andon.errors import QueueFull, TaskFailed

The message of each says what happened, to which task, and what to do.
"""

from andon.artifacts.base import ArtifactConflict, ArtifactNotFound
from andon.model.errors import (
    AccessError,
    AndonError,
    AuthenticationFailed,
    ConfigurationError,
    FlowConflict,
    FlowNotFound,
    GroupNotFound,
    GroupRefused,
    InvalidSubmission,
    InvalidTransition,
    LeaseLost,
    PayloadTooLarge,
    PermissionRefused,
    QueueFull,
    QueueNotEmpty,
    StoreError,
    StoreIncompatible,
    StoreUnavailable,
    SubmissionsRefused,
    TaskCancelled,
    TaskConflict,
    TaskFailed,
    TaskNotFound,
    UniqueKeyHeld,
    WorkerNotFound,
)

__all__ = [
    "AccessError",
    "AndonError",
    "ArtifactConflict",
    "ArtifactNotFound",
    "AuthenticationFailed",
    "ConfigurationError",
    "FlowConflict",
    "FlowNotFound",
    "GroupNotFound",
    "GroupRefused",
    "InvalidSubmission",
    "InvalidTransition",
    "LeaseLost",
    "PayloadTooLarge",
    "PermissionRefused",
    "QueueFull",
    "QueueNotEmpty",
    "StoreError",
    "StoreIncompatible",
    "StoreUnavailable",
    "SubmissionsRefused",
    "TaskCancelled",
    "TaskConflict",
    "TaskFailed",
    "TaskNotFound",
    "UniqueKeyHeld",
    "WorkerNotFound",
]
