"""What claim sends and what comes back."""

from typing import Any

from andon.lifecycle.apply import stamped
from andon.model.task import Stamp, Task
from andon.model.words import State
from andon.stores.base import ClaimRequest
from andon.stores.redis.records import (
    Undecodable,
    decode_definition,
    decode_status,
    encode,
    records_in,
)

_CLAIMED = 4
"""What `claim.lua` hands out of each task: id, definition, status and fence."""


def packed(request: ClaimRequest, grants: dict[str, Any] | None = None) -> bytes:
    """The request as `claim.lua` takes it; `grants` as `spread.Grants` has them."""
    return encode(
        (
            request.worker,
            request.token,
            request.limit,
            request.lease_ms,
            request.room or None,
            request.queues,
            grants,
        )
    )


def claimed(reply: list[Any], request: ClaimRequest) -> tuple[list[Task], list[str]]:
    """The runs handed out, and the ids of records that do not decode."""
    if reply[1] == b"again":
        found = records_in(reply, 2)
        tasks = [task for _, task in found if task.state is State.ACTIVE]
        return tasks, [task_id for task_id, task in found if task.state is State.UNKNOWN]
    now, before = reply[0], reply[2]
    tasks: list[Task] = []
    broken: list[str] = []
    rows = range(5, len(reply), _CLAIMED)
    for index, i in enumerate(rows, start=before + 1):
        try:
            definition = decode_definition(reply[i + 1])
            status = decode_status(reply[i + 2])
        except Undecodable:
            broken.append(reply[i].decode())
            continue
        stamp = Stamp(
            f"{request.token}-{index}",
            int(reply[i + 3]),
            request.worker,
            request.token,
            now,
            now + request.lease_ms,
        )
        tasks.append(stamped(Task(definition=definition, status=status), stamp))
    return tasks, broken


def refills(reply: list[Any]) -> list[tuple[str, float]]:
    """Queues whose rate limit held something back, and the seconds until it lets more through."""
    if reply[1] == b"again":
        return []
    waits = reply[3]
    return [(waits[i].decode(), waits[i + 1] / 1000) for i in range(0, len(waits), 2)]
