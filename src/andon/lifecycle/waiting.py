"""Finds out why a pending task waits, from its queue and the workers (docs/rulings.md, R32).
Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from andon.lifecycle.routing import may_claim, parse_kind
from andon.model.code import Code
from andon.model.fleet import QueueConfig, WorkerInfo


class Why(StrEnum):
    """What a pending task waits for."""

    PAUSED = "queue-paused"
    NO_WORKER = "no-worker"  #: no live worker asks its queue
    NO_CODE = "no-code"  #: workers ask its queue, and none has code for it
    QUEUE_LIMIT = "queue-limit"  #: `max_concurrent` is reached
    KEY_LIMIT = "key-limit"  #: `max_concurrent_per_key` is reached for its key
    KEY_BLOCKED = "key-blocked"
    """The places of its key are held by tasks that come first, and that no worker has code for."""
    BUSY = "workers-busy"  #: every worker that could run it is full or quiet
    RATE = "queue-rate"  #: no other reason is seen, and the queue lets only so many start


class Ahead(msgspec.Struct, frozen=True):
    """A pending task that comes before another of its key."""

    id: str
    kind: str  #: as `lifecycle.routing` writes it


class Wait(msgspec.Struct, frozen=True):
    """A reason to wait, and the same in words for a reader."""

    why: Why
    text: str


def spoken(kind: str) -> str:
    """A kind for a reader: `shop.charge`, or `shop.charge v2`."""
    name, version, _ = parse_kind(kind)
    return f"{name} v{version}" if version else name


def why_waits(
    kind: str,
    config: QueueConfig,
    *,
    workers: Sequence[WorkerInfo],
    codes: Mapping[str, Code],
    active: int | None = None,
    active_of_key: int | None = None,
    ahead: Sequence[Ahead] = (),
) -> Wait | None:
    """Why a task of a kind waits in this queue; None: nothing keeps it, it is about to start.

    `workers` are those alive, `codes` the lists behind their digests. `active`: runs of the queue,
    and of the task's own key; None where that is not known or not limited. `ahead`: those of its
    key that come first, in their order. (A limit per key gives its places in order, to what is
    pending, too: so one that waits for its code holds a place.) Workers describe themselves every
    ten seconds or so, which is how old an answer may be.
    """
    queue = config.name
    if config.paused:
        return Wait(Why.PAUSED, f"queue {queue} is paused")
    asking = [one for one in workers if queue in one.queues and one.state != "stopping"]
    if not asking:
        return Wait(Why.NO_WORKER, f"no worker asks queue {queue}")
    able = [one for one in asking if has_code(one, codes, kind)]
    if not able:
        return Wait(Why.NO_CODE, f"waits for a worker that has {spoken(kind)}")
    if active is not None and config.max_concurrent is not None and active >= config.max_concurrent:
        return Wait(
            Why.QUEUE_LIMIT, f"queue {queue} has {active} runs, of {config.max_concurrent} at once"
        )
    most = config.max_concurrent_per_key
    if active_of_key is not None and most is not None:
        if active_of_key >= most:
            return Wait(Why.KEY_LIMIT, f"its key has {active_of_key} runs, of {most} at once")
        holders = ahead[: most - active_of_key]
        if len(holders) == most - active_of_key:
            return _of_holders(holders, most, asking, codes)
    if not any(has_room(one) for one in able):
        return Wait(Why.BUSY, "every worker that has it is full or quiet")
    if config.rate_limit is not None:
        return Wait(Why.RATE, f"queue {queue} lets {config.rate_limit:g} start in a second")
    return None


def _of_holders(
    holders: Sequence[Ahead], most: int, asking: Sequence[WorkerInfo], codes: Mapping[str, Code]
) -> Wait:
    """What a task waits for while these hold all places of its key that are left."""
    for one in holders:
        if any(has_code(worker, codes, one.kind) for worker in asking):
            return Wait(
                Why.KEY_LIMIT, f"others of its key come first, of which {most} may run at once"
            )
    first = holders[0]
    return Wait(
        Why.KEY_BLOCKED,
        f"comes after {first.id} of the same key, which waits for a worker that has "
        f"{spoken(first.kind)}",
    )


def has_code(worker: WorkerInfo, codes: Mapping[str, Code], kind: str) -> bool:
    """Whether a worker may be given tasks of a kind. One that names no types may, and one whose
    list is not known is assumed to."""
    code = codes.get(worker.code)
    return code is None or may_claim(code, kind)


def has_room(worker: WorkerInfo) -> bool:
    """Whether a worker claims, by its last description. One that gave no concurrency does not count
    as full."""
    return worker.state == "running" and (
        not worker.concurrency or worker.active < worker.concurrency
    )
