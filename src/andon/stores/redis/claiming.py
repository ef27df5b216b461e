"""Claiming: the one move made inside the store, by writing a fixed stamp."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from andon.lifecycle.apply import stamped
from andon.model.task import Stamp, Task
from andon.model.words import State
from andon.stores.base import ClaimRequest
from andon.stores.codec import Undecodable, decode_definition, decode_status, encode
from andon.stores.redis import reserving, spread
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import records_in
from andon.stores.standing import STANDS_MS

_CLAIMED = 4
"""What `claim.lua` hands out of each task: id, definition, status and fence."""

_HEAD = 5
"""What it says first: time, kind, runs given to the token before, refills, and limited queues."""

_WITH_GRANTS = "~"
"""Ends the token of a claim made with grants; a repeat of the claim finds the runs of both."""


async def claim(at: Partitions, request: ClaimRequest) -> list[Task]:
    """Hand out what there is room for, in the order of the queues asked."""
    tasks, reply = await _claim(at, request)
    if at.count > 1:
        if reply[1] != b"again":
            tasks += await _claim_limited(at, request, tasks, reply)
        freed = [
            (task.definition.unique_key, task.id)
            for task in tasks
            if task.definition.unique_key is not None
            and State.ACTIVE.value not in task.policy.unique_states
        ]
        await reserving.let_go(at, freed)
    return tasks


async def _claim(
    at: Partitions,
    request: ClaimRequest,
    grants: dict[str, Any] | None = None,
    *,
    part_of: str | None = None,
) -> tuple[list[Task], list[Any]]:
    """One claim, with grants of `spread.Grants` as part of another claim, or without."""
    word = (None, None) if grants or not at.hands_over else _word(at, request)
    packed = encode(
        (
            request.worker,
            request.token,
            request.limit,
            request.lease_ms,
            request.room or None,
            request.queues,
            grants,
            part_of,
            *word,
        )
    )
    reply = await at.run_packed("claim", request.partition, packed)
    if reply[1] == b"again":
        found = records_in(reply, 2)
        tasks = [task for _, task in found if task.state is State.ACTIVE]
        broken = [task_id for task_id, task in found if task.state is State.UNKNOWN]
    else:
        tasks, broken = _claimed(reply, request)
        waits = reply[3]
        for i in range(0, len(waits), 2):
            at.refills.expect(waits[i].decode(), waits[i + 1] / 1000)
    if at.hands_over:
        at.standing.answered(request, found=bool(tasks or broken))
    if broken:
        await at.run("set_aside", request.partition, broken)
    return tasks, reply


def _word(at: Partitions, request: ClaimRequest) -> tuple[Any, Any]:
    """How the claim is to stand, and what stood before it."""
    number, stood, queues = at.standing.word(request)
    return (number, at.handed, STANDS_MS) if number else None, stood and (stood, queues)


def _claimed(reply: list[Any], request: ClaimRequest) -> tuple[list[Task], list[str]]:
    """The runs handed out, and the ids of records that do not decode."""
    now, before = reply[0], reply[2]
    tasks: list[Task] = []
    broken: list[str] = []
    rows = range(_HEAD, len(reply), _CLAIMED)
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


async def _claim_limited(
    at: Partitions, request: ClaimRequest, tasks: Sequence[Task], reply: list[Any]
) -> list[Task]:
    """What the queues have whose limits all partitions share."""
    limited = spread.limited_in(reply[4])
    left = request.limit - len(tasks)
    if not limited or left <= 0:
        return []
    room = dict(request.room)
    for task in tasks:
        if task.definition.name in room:
            room[task.definition.name] -= 1
    more = msgspec.structs.replace(
        request, token=request.token + _WITH_GRANTS, limit=left, room=room
    )
    grants = spread.Grants(at, more.token)
    claimed: list[Task] = []
    try:
        await grants.take(limited, left)
        if grants.granted:
            claimed, _ = await _claim(at, more, grants.granted, part_of=request.token)
    finally:
        await grants.give_back(Counter(task.definition.queue for task in claimed))
    return claimed
