"""The form of ids and names, in paths and in bodies. Pure."""

import re

SLUGID = r"^[A-Za-z0-9_-]{8}[Q-T][A-Za-z0-9_-][CGKOSWaeimquy26-][A-Za-z0-9_-]{10}[AQgw]\Z"
"""22 characters: a random UUID (version 4) in URL-safe base64."""

IDENTIFIER = r"^[a-zA-Z0-9_-]{1,38}\Z"
WORKER_TYPE = r"^[a-z]([-a-z0-9]{0,36}[a-z0-9])?\Z"
TASK_QUEUE = r"^[a-zA-Z0-9_-]{1,38}/[a-z]([-a-z0-9]{0,36}[a-z0-9])?\Z"
RUN = r"^[1-9]*[0-9]+\Z"
ARTIFACT = r"^[\x20-\x7e]{1,1024}\Z"

_MOST_DIGITS = 9

PARAMETERS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.ASCII)
    for name, pattern in {
        "taskId": SLUGID,
        "taskGroupId": SLUGID,
        "taskQueueId": TASK_QUEUE,
        "provisionerId": IDENTIFIER,
        "workerType": WORKER_TYPE,
        "workerGroup": IDENTIFIER,
        "workerId": IDENTIFIER,
        "runId": RUN,
        "name": ARTIFACT,
    }.items()
}
"""By the name of a parameter in a path, what it must match."""

_SLUG, _NAME = PARAMETERS["taskId"], PARAMETERS["workerId"]


def is_slugid(text: str) -> bool:
    """Whether a task of this face, or a group, may have this id."""
    return _SLUG.match(text) is not None


def is_identifier(text: str) -> bool:
    """Whether a scheduler, a provisioner or a worker may be called so."""
    return _NAME.match(text) is not None


def is_parameter(name: str, value: str) -> bool:
    """Whether a path may have this value for a parameter."""
    if name == "runId" and len(value) > _MOST_DIGITS:
        return False
    return PARAMETERS[name].match(value) is not None
