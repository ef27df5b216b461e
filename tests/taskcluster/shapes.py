"""What every answer and every message of the face must look like, as JSON schemas.

They are written from what clients of the original may rely on: which properties there are, which of
them always, and what each may be. Nothing else may be in an object whose shape the original closes.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs

Schema = dict[str, Any]

TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
SLUGID: Schema = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]{8}[Q-T][A-Za-z0-9_-][CGKOSWaeimquy26-][A-Za-z0-9_-]{10}[AQgw]$",
}
IDENTIFIER: Schema = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,38}$"}
WORKER_TYPE: Schema = {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,36}[a-z0-9])?$"}
QUEUE_ID: Schema = {
    "type": "string",
    "pattern": "^[a-zA-Z0-9_-]{1,38}/[a-z]([-a-z0-9]{0,36}[a-z0-9])?$",
}
PROJECT: Schema = {"type": "string", "pattern": "^[a-zA-Z0-9._/-]{1,500}$"}
RUN_ID: Schema = {"type": "integer", "minimum": 0, "maximum": 1_000}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string"}
WORD: Schema = {"type": "string", "minLength": 1}
URL: Schema = {"type": "string", "format": "uri", "pattern": "^https?://"}
ANY_OBJECT: Schema = {"type": "object"}
EMPTY: Schema = {"type": "object", "additionalProperties": False}


def one_of(*values: Any) -> Schema:
    return {"enum": list(values)}


def text(most: int) -> Schema:
    return {"type": "string", "maxLength": most}


def every(items: Schema, *, most: int | None = None, unique: bool = True) -> Schema:
    bound = {} if most is None else {"maxItems": most}
    return {"type": "array", "items": items, "uniqueItems": unique, **bound}


def closed(always: Mapping[str, Schema], perhaps: Mapping[str, Schema] | None = None) -> Schema:
    """An object with these properties and no other."""
    return {
        "type": "object",
        "properties": {**always, **(perhaps or {})},
        "required": list(always),
        "additionalProperties": False,
    }


def page(rows: str, row: Schema, **beside: Schema) -> Schema:
    """A list that comes in pages."""
    always = {**beside, rows: every(row, most=1_000)}
    return closed(always, {"continuationToken": WORD})


PRIORITY = one_of("highest", "very-high", "high", "medium", "low", "very-low", "lowest")
RUN_STATES = ("pending", "running", "completed", "failed", "exception")
TAGS: Schema = {"type": "object", "additionalProperties": text(4_096)}
WORKER = {"workerGroup": IDENTIFIER, "workerId": IDENTIFIER}
QUEUE = {"provisionerId": IDENTIFIER, "workerType": WORKER_TYPE, "taskQueueId": QUEUE_ID}

RUN = closed(
    {
        "runId": RUN_ID,
        "state": one_of(*RUN_STATES),
        "reasonCreated": one_of("scheduled", "retry", "task-retry", "rerun", "exception"),
        "scheduled": TIME,
    },
    {
        "reasonResolved": one_of(
            "completed",
            "failed",
            "deadline-exceeded",
            "canceled",
            "claim-expired",
            "worker-shutdown",
            "malformed-payload",
            "resource-unavailable",
            "internal-error",
            "intermittent-task",
            "superseded",
        ),
        **WORKER,
        "takenUntil": TIME,
        "started": TIME,
        "resolved": TIME,
    },
)
STATUS = closed(
    {
        "taskId": SLUGID,
        **QUEUE,
        "schedulerId": IDENTIFIER,
        "projectId": PROJECT,
        "taskGroupId": SLUGID,
        "priority": PRIORITY,
        "deadline": TIME,
        "expires": TIME,
        "retriesLeft": {"type": "integer", "minimum": 0, "maximum": 999},
        "state": one_of("unscheduled", *RUN_STATES),
        "runs": every(RUN, most=50),
    }
)
TASK = closed(
    {
        **QUEUE,
        "schedulerId": IDENTIFIER,
        "projectId": PROJECT,
        "taskGroupId": SLUGID,
        "dependencies": every(SLUGID, most=10_000),
        "requires": one_of("all-completed", "all-resolved"),
        "routes": every({"type": "string", "minLength": 1, "maxLength": 249}, most=64),
        "priority": PRIORITY,
        "retries": {"type": "integer", "minimum": 0, "maximum": 49},
        "created": TIME,
        "deadline": TIME,
        "expires": TIME,
        "scopes": every({"type": "string", "pattern": "^[\\x20-\\x7e]*$"}, unique=False),
        "payload": ANY_OBJECT,
        "metadata": closed(
            {
                "name": text(255),
                "description": text(32_768),
                "owner": text(255),
                "source": {**text(4_096), "pattern": "^(https?://|ssh://|git@)"},
            }
        ),
        "tags": TAGS,
        "extra": ANY_OBJECT,
    }
)
OF_STATUS = closed({"status": STATUS})
TASK_AND_STATUS = closed({"task": TASK, "status": STATUS})
GROUP_PARTS = {"taskGroupId": SLUGID, "schedulerId": IDENTIFIER, "expires": TIME}
GROUP = closed(GROUP_PARTS, {"sealed": TIME})
CREDENTIALS = closed({"clientId": WORD, "accessToken": WORD, "certificate": WORD})
RECLAIMED = {
    "status": STATUS,
    "runId": RUN_ID,
    **WORKER,
    "takenUntil": TIME,
    "credentials": CREDENTIALS,
}
CLAIM = closed({**RECLAIMED, "task": TASK})
LIFE = {
    "description": TEXT,
    "stability": one_of("experimental", "stable", "deprecated"),
    "expires": TIME,
    "lastDateActive": TIME,
}
TASK_QUEUE = closed({"taskQueueId": QUEUE_ID, **LIFE})
PROVISIONER = closed({"provisionerId": IDENTIFIER, **LIFE})
OLD_WORKER_TYPE = closed({**QUEUE, **LIFE})
PENDING = {**QUEUE, "pendingTasks": COUNT}
COUNTS = closed({**PENDING, "claimedTasks": COUNT})
OF_RUN = closed({"taskId": SLUGID, "runId": RUN_ID})
QUARANTINE = closed(
    {"clientId": TEXT, "updatedAt": TIME, "quarantineUntil": TIME, "quarantineInfo": TEXT}
)
WORKER_ROW = closed(
    {**WORKER, "firstClaim": TIME},
    {"lastDateActive": TIME, "latestTask": OF_RUN, "quarantineUntil": TIME},
)
ONE_WORKER = closed(
    {
        **QUEUE,
        **WORKER,
        "firstClaim": TIME,
        "expires": TIME,
        "recentTasks": every(OF_RUN, most=20, unique=False),
    },
    {"lastDateActive": TIME, "quarantineUntil": TIME, "quarantineDetails": every(QUARANTINE)},
)
ARTIFACT = closed(
    {
        "storageType": one_of("s3", "object", "reference", "link", "error"),
        "name": text(1_024),
        "expires": TIME,
        "contentType": text(255),
    },
    {"contentLength": COUNT},
)
OBJECT_NAME: Schema = {"type": "string", "pattern": "^[\\x20-\\x7e]+$"}
CREATED_ARTIFACT: Schema = {
    "oneOf": [
        closed(
            {
                "storageType": one_of("s3"),
                "putUrl": URL,
                "expires": TIME,
                "contentType": text(255),
            }
        ),
        closed(
            {
                "storageType": one_of("object"),
                "name": OBJECT_NAME,
                "projectId": PROJECT,
                "uploadId": SLUGID,
                "credentials": CREDENTIALS,
                "expires": TIME,
            }
        ),
        closed({"storageType": one_of("reference", "link", "error")}),
    ]
}
CONTENT: Schema = {
    "oneOf": [
        closed({"storageType": one_of("s3", "reference"), "url": URL}),
        closed(
            {
                "storageType": one_of("object"),
                "name": OBJECT_NAME,
                "credentials": CREDENTIALS,
            }
        ),
        closed({"storageType": one_of("error"), "reason": TEXT, "message": TEXT}),
    ]
}
ELSEWHERE = closed({"storageType": one_of("s3", "reference", "object"), "url": URL})
ERROR_ARTIFACT = closed({"reason": TEXT, "message": TEXT})

ERROR = closed(
    {
        "code": one_of(
            "MalformedPayload",
            "InvalidRequestArguments",
            "InputValidationError",
            "InputError",
            "AuthenticationFailed",
            "InsufficientScopes",
            "ResourceNotFound",
            "RequestConflict",
            "ResourceExpired",
            "InputTooLarge",
            "InternalServerError",
        ),
        "message": WORD,
        "requestInfo": closed(
            {
                "method": WORD,
                "params": {"type": "object", "additionalProperties": TEXT},
                "payload": {"type": ["object", "array"]},
                "time": TIME,
            }
        ),
    }
)
"""Every answer from 400 on, but that of an error artifact."""

ANSWERS: dict[str, Schema] = {
    "ping": closed({"alive": one_of(True), "uptime": {"type": "number", "minimum": 0}}),
    "version": closed({"version": WORD, "commit": TEXT, "source": TEXT, "build": TEXT}),
    "heartbeat": EMPTY,
    "lbheartbeat": EMPTY,
    "createTask": OF_STATUS,
    "task": TASK,
    "status": OF_STATUS,
    "tasks": page("tasks", closed({"taskId": SLUGID, "task": TASK})),
    "statuses": page("statuses", closed({"taskId": SLUGID, "status": STATUS})),
    "scheduleTask": OF_STATUS,
    "rerunTask": OF_STATUS,
    "cancelTask": OF_STATUS,
    "changeTaskPriority": OF_STATUS,
    "listDependentTasks": page("tasks", TASK_AND_STATUS, taskId=SLUGID),
    "listTaskGroup": closed(
        {**GROUP_PARTS, "tasks": every(TASK_AND_STATUS, most=1_000)},
        {"sealed": TIME, "continuationToken": WORD},
    ),
    "getTaskGroup": GROUP,
    "sealTaskGroup": closed({**GROUP_PARTS, "sealed": TIME}),
    "cancelTaskGroup": closed(
        {
            "taskGroupId": SLUGID,
            "taskGroupSize": COUNT,
            "cancelledCount": COUNT,
            "taskIds": every(SLUGID),
        }
    ),
    "changeTaskGroupPriority": closed(
        {
            "taskGroupId": SLUGID,
            "schedulerId": IDENTIFIER,
            "newPriority": PRIORITY,
            "tasksAffected": COUNT,
            "taskIds": every(SLUGID),
        }
    ),
    "claimWork": closed({"tasks": every(CLAIM, most=32)}),
    "reclaimTask": closed(RECLAIMED),
    "reportCompleted": OF_STATUS,
    "reportFailed": OF_STATUS,
    "reportException": OF_STATUS,
    "createArtifact": CREATED_ARTIFACT,
    "listArtifacts": page("artifacts", ARTIFACT),
    "listLatestArtifacts": page("artifacts", ARTIFACT),
    "artifactInfo": ARTIFACT,
    "latestArtifactInfo": ARTIFACT,
    "artifact": CONTENT,
    "latestArtifact": CONTENT,
    "getArtifact": ELSEWHERE,
    "getLatestArtifact": ELSEWHERE,
    "taskQueueCounts": COUNTS,
    "taskQueueCountsBatch": closed({"taskQueueCounts": every(COUNTS, most=1_000)}),
    "pendingTasks": closed(PENDING),
    "listPendingTasks": page(
        "tasks", closed({**OF_RUN["properties"], "task": TASK, "inserted": TIME})
    ),
    "listClaimedTasks": page(
        "tasks", closed({**OF_RUN["properties"], **WORKER, "claimed": TIME, "task": TASK})
    ),
    "listTaskQueues": page("taskQueues", TASK_QUEUE),
    "getTaskQueue": TASK_QUEUE,
    "listProvisioners": page("provisioners", PROVISIONER),
    "getProvisioner": PROVISIONER,
    "listWorkerTypes": page("workerTypes", OLD_WORKER_TYPE),
    "getWorkerType": OLD_WORKER_TYPE,
    "listWorkers": page("workers", WORKER_ROW),
    "getWorker": ONE_WORKER,
    "quarantineWorker": ONE_WORKER,
    "declareWorker": ONE_WORKER,
}
"""What is answered well, by the name of the route. finishArtifact answers with no body."""

_ABOUT_TASK = {"version": one_of(1), "status": STATUS, "task": closed({"tags": TAGS})}
_ABOUT_RUN = {**_ABOUT_TASK, "runId": RUN_ID, **WORKER}
_ABOUT_GROUP = closed({"version": one_of(1), **GROUP_PARTS}, {"sealed": TIME})

MESSAGES: dict[str, Schema] = {
    "task-defined": closed(_ABOUT_TASK),
    "task-pending": closed({**_ABOUT_TASK, "runId": RUN_ID}),
    "task-running": closed({**_ABOUT_RUN, "takenUntil": TIME}),
    "artifact-created": closed(
        {
            "version": one_of(1),
            "status": STATUS,
            "runId": RUN_ID,
            **WORKER,
            "artifact": closed(
                {
                    "storageType": one_of("reference", "link", "error", "object"),
                    "name": text(1_024),
                    "expires": TIME,
                    "contentType": text(255),
                }
            ),
        }
    ),
    "task-completed": closed(_ABOUT_RUN),
    "task-failed": closed(_ABOUT_RUN),
    "task-exception": closed(_ABOUT_TASK, {"runId": RUN_ID, **WORKER}),
    "task-priority-changed": closed(
        {"version": one_of(1), "status": STATUS, "oldPriority": PRIORITY, "newPriority": PRIORITY}
    ),
    "task-group-resolved": _ABOUT_GROUP,
    "task-group-sealed": closed({"version": one_of(1), **GROUP_PARTS, "sealed": TIME}),
    "task-group-priority-changed": closed(
        {
            "version": one_of(1),
            "taskGroupId": SLUGID,
            "schedulerId": IDENTIFIER,
            "newPriority": PRIORITY,
            "tasksAffected": COUNT,
        }
    ),
}
"""Bodies of messages, by their exchange."""


@cache
def answer_validator(name: str) -> jsonschema_rs.Validator:
    """What a good answer of this route is held against."""
    return _validator(ANSWERS[name])


@cache
def message_validator(exchange: str) -> jsonschema_rs.Validator:
    """What a message of this exchange is held against."""
    return _validator(MESSAGES[exchange])


@cache
def error_validator() -> jsonschema_rs.Validator:
    """What a refusal is held against."""
    return _validator(ERROR)


@cache
def error_artifact_validator() -> jsonschema_rs.Validator:
    """What is said of an artifact that is an error."""
    return _validator(ERROR_ARTIFACT)


def _validator(schema: Schema) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema, validate_formats=True)
