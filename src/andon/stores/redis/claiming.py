"""Claims tasks: the one move made inside the store, by writing a fixed stamp."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from andon.contract.requests import ClaimRequest
from andon.lifecycle.apply import stamped
from andon.lifecycle.routing import Kind, may_claim
from andon.lifecycle.unique import key_freed_by_claim
from andon.model.code import Code
from andon.model.task import Stamp, Task
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, decode_definition, decode_status, encode
from andon.stores.kit.parked_claims import PARKED_MS
from andon.stores.redis import reserving, spread
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import records_in

_CLAIMED = 4
"""The fields that `claim.lua` returns of each task: id, definition, status and fence."""

_HEAD = 7
"""The fields before the tasks: time, kind, runs given to the token before, refills, limited queues,
kinds not known to the memo of the claim's code, and whether another call may find more. None stands
for refills, queues and kinds if there are none."""

_WITH_GRANTS = "~"
"""Ends the token of a claim made with grants; a repeat of the claim finds the runs of both."""

MOST_LOOKS = 40
"""How often one claim goes on: each time past kinds that were not known yet, past tasks that cannot
be claimed any more, or past keys that are full."""

MOST_AS_A_LIST = 50
"""How many queues are sent one by one. More are sent as one text, which a script need not split."""


MOST_CODES_TOLD = 1_000
"""For how many codes a process remembers that it has sent their kinds; beyond, it sends them
again."""


class _Look(msgspec.Struct):
    """What one script found."""

    tasks: list[Task]
    broken: list[str]  #: ids of records that do not decode
    limited: list[Any] | None
    is_repeat: bool  #: these are all runs that were given to the token
    may_be_more: bool


async def claim(at: Partitions, request: ClaimRequest) -> list[Task]:
    """Hand out as many tasks as there is room for, in the order of the queues in the request."""
    if request.code is not None and (request.code.digest, request.partition) not in at.told:
        await _tell_own_kinds(at, request.partition, request.code)
    tasks: list[Task] = []
    granted = 0
    found = False
    left = request
    for _ in range(MOST_LOOKS):
        look = await _look(at, left, len(tasks))
        found = found or bool(look.tasks or look.broken)
        tasks = look.tasks if look.is_repeat else tasks + look.tasks
        more = look.may_be_more
        if look.limited:
            claimed, any_more = await _claim_limited(at, request, tasks, granted, look.limited)
            tasks, granted, more = tasks + claimed, granted + len(claimed), more or any_more
        if not more or len(tasks) >= request.limit:
            break
        left = _what_is_left(request, tasks)
    if at.parks_claims:
        at.parked.answered(request, found=found)
    if at.count > 1:
        freed = [(key, task.id) for task in tasks if (key := key_freed_by_claim(task)) is not None]
        await reserving.release(at, freed)
    return tasks


def _what_is_left(request: ClaimRequest, tasks: Sequence[Task]) -> ClaimRequest:
    """The claim without the tasks that it has got."""
    if not tasks:
        return request
    room = dict(request.room)
    for task in tasks:
        if task.definition.name in room:
            room[task.definition.name] -= 1
    return msgspec.structs.replace(
        request, limit=request.limit - len(tasks), room=room, parks=False
    )


async def _look(
    at: Partitions,
    request: ClaimRequest,
    known: int,
    grants: dict[str, Any] | None = None,
    *,
    part_of: str | None = None,
) -> _Look:
    """One call of the script, with grants of `spread.Grants` as part of another claim, or without.
    `known` is how many runs the caller has of this token."""
    parking = (None, None) if grants or known or not at.parks_claims else _parking(at, request)
    queues, code = request.queues, request.code
    packed = encode(
        (
            request.worker,
            request.token,
            request.limit,
            request.lease_ms,
            request.room or None,
            queues if len(queues) <= MOST_AS_A_LIST else "\n".join(("", *queues, "")),
            grants,
            part_of,
            *parking,
            None if code is None else code.digest,
            known or None,
            at.count > 1 or None,
        )
    )
    reply = await at.run_packed("claim", request.partition, packed)
    if reply[1] == b"again":
        found = records_in(reply, 2)
        tasks = [task for _, task in found if task.state is State.ACTIVE]
        broken = [task_id for task_id, task in found if task.state is State.UNKNOWN]
        look = _Look(tasks, broken, None, is_repeat=True, may_be_more=False)
    else:
        tasks, broken = _claimed(reply, request)
        waits, limited, undecided = reply[3:6]
        if waits:
            for i in range(0, len(waits), 2):
                at.refills.expect(waits[i].decode(), waits[i + 1] / 1000)
        if undecided and code is not None:
            await _remember(at, request.partition, code, undecided)
        look = _Look(tasks, broken, limited, is_repeat=False, may_be_more=reply[6] == 1)
    if broken:
        await at.run("set_aside", request.partition, broken)
    return look


async def _tell_own_kinds(at: Partitions, partition: int, code: Code) -> None:
    """Send a partition the kinds that a code names, once: so they are known before the first task
    of each, which can be handed over then."""
    if len(at.told) >= MOST_CODES_TOLD:
        at.told.clear()
    kinds = [
        str(Kind(name, version, is_open)).encode()
        for name, version in code.types
        if not name.endswith("*")
        for is_open in (False, True)
    ]
    if kinds:
        await _remember(at, partition, code, kinds)
    at.told.add((code.digest, partition))


async def _remember(at: Partitions, partition: int, code: Code, kinds: Sequence[bytes]) -> None:
    """Decide which kinds the code may claim, for all workers that have it."""
    can: list[str] = []
    cannot: list[str] = []
    for kind in map(bytes.decode, kinds):
        (can if may_claim(code, kind) else cannot).append(kind)
    await at.run("remember", partition, (code.digest, can, cannot))


def _parking(at: Partitions, request: ClaimRequest) -> tuple[Any, Any]:
    """How the claim is to be parked, and which one may be parked before it."""
    number, before, queues = at.parked.intent(request)
    return (number, at.handoff_channel, PARKED_MS) if number else None, before and (before, queues)


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
    at: Partitions, request: ClaimRequest, tasks: Sequence[Task], had: int, rows: list[Any]
) -> tuple[list[Task], bool]:
    """The tasks of queues whose limits all partitions share, of which this claim `had` some; and
    whether there may be more."""
    limited = spread.limited_in(rows)
    more = msgspec.structs.replace(
        _what_is_left(request, tasks), token=request.token + _WITH_GRANTS, parks=False
    )
    if more.limit <= 0:
        return [], False
    grants = spread.Grants(at, more.token)
    claimed: list[Task] = []
    any_more = False
    try:
        await grants.take(limited, more.limit)
        if grants.granted:
            look = await _look(at, more, had, grants.granted, part_of=request.token)
            known = {task.id for task in tasks} if look.is_repeat else ()
            claimed = [task for task in look.tasks if task.id not in known]
            asked_for_all = not any(one.is_cut for one in limited)
            any_more = look.may_be_more or (bool(claimed) and not asked_for_all)
        await grants.settle(Counter(task.definition.queue for task in claimed))
    finally:
        await grants.give_back()
    return claimed, any_more
