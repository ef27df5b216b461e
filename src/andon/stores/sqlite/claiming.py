"""Claiming: the one move made inside the store, by writing a fixed stamp."""

import json
import math
from collections.abc import Sequence

from andon.lifecycle.apply import next_fence, stamped
from andon.model.fleet import QueueConfig
from andon.model.task import Stamp, Task
from andon.model.words import State
from andon.stores.base import SCAN_BUDGET, TIMER_TOPIC, ClaimRequest
from andon.stores.codec import Row, Undecodable, decode_definition, decode_status
from andon.stores.sqlite.committing import set_aside
from andon.stores.sqlite.reading import read_task_by_seq
from andon.stores.sqlite.rows import write
from andon.stores.sqlite.statements import CONFIG, LIFE
from andon.stores.sqlite.transaction import Transaction


def claim(tx: Transaction, request: ClaimRequest) -> list[Task]:
    """Hand out what there is room for, in the order of the queues asked."""
    again = tx.db.execute(LIFE.claimed, (request.token,)).fetchone()
    before: list[int] = [] if again is None else json.loads(again[0])
    if before:
        same = _same_again(tx, request, before)
        if same:
            return same
    room = {tx.name_id(name): left for name, left in request.room.items()}
    claimed: list[Task] = []
    for name in request.queues:
        wanted = request.limit - len(claimed)
        if wanted <= 0:
            break
        config = tx.configs.get(name)
        allowed = wanted if config is None else _allowed(tx, config, wanted)
        if allowed > 0:
            # Those that the token was given before count, so that no run id is used twice.
            first = len(before) + len(claimed)
            took = _claim_queue(tx, request, name, allowed, room, first=first)
            if config is not None and config.rate_limit is not None:
                _draw(tx, config, len(took))
            claimed.extend(took)
    if claimed:
        seqs = json.dumps([*before, *(task.ref for task in claimed)])
        tx.db.execute(LIFE.insert_claim, (request.token, tx.now, seqs))
    return claimed


def _same_again(tx: Transaction, request: ClaimRequest, seqs: Sequence[int]) -> list[Task]:
    """The runs this token was given, while they are active (R31)."""
    tasks = (read_task_by_seq(tx.db, seq) for seq in seqs)
    return [
        task
        for task in tasks
        if task is not None
        and task.state is State.ACTIVE
        and task.status.run.startswith(f"{request.token}-")
    ]


def _claim_queue(
    tx: Transaction,
    request: ClaimRequest,
    queue_name: str,
    limit: int,
    room: dict[int, int],
    *,
    first: int,
) -> list[Task]:
    queue = tx.name_id(queue_name)
    lane = tx.lane(queue, request.partition)
    batch = _Batch()
    for row in tx.db.execute(LIFE.candidates, (lane, SCAN_BUDGET)):
        kind, dead_at = row[3], row[4]
        if dead_at is not None and dead_at <= tx.now:
            batch.dead.append(row[2])
            batch.passed = True
        elif room.get(kind, 1) > 0:
            _take(tx, request, row, batch, lane, index=first + len(batch.taken))
            if kind in room:
                room[kind] -= 1
            if len(batch.taken) >= limit:
                break
        else:
            batch.passed = True
    _write(tx, queue, batch)
    return batch.taken


class _Batch:
    """What one look at a queue found. Written only when the look is over."""

    def __init__(self) -> None:
        self.taken: list[Task] = []
        self.stamps: list[tuple[object, ...]] = []
        self.timers: list[int] = []
        self.gone: list[tuple[int, int, int, int]] = []  # ready entries used up
        self.passed = False  # whether an entry was left where it stands, before one used up
        self.dead: list[int] = []  # not to be handed out any more
        self.broken: list[int] = []  # records that do not decode


def _take(
    tx: Transaction, request: ClaimRequest, row: Row, batch: _Batch, lane: int, *, index: int
) -> None:
    level, order, seq, _kind, dead_at, first_limit = row[:6]
    batch.gone.append((lane, level, order, seq))
    task = _stamp(tx, request, row, index)
    if task is None:
        batch.broken.append(seq)
        return
    timer = lease_until = tx.now + request.lease_ms
    if first_limit is not None:
        timer = min(timer, tx.now + first_limit)
    if dead_at is not None:
        timer = min(timer, dead_at)
    status = task.status
    pos = tx.add_event(seq, task.definition.id, status.events[-1], row[8])
    batch.stamps.append(
        (seq, timer, status.run, status.fence, request.worker, request.token, tx.now,
         lease_until, pos)
    )  # fmt: skip
    batch.timers.append(timer)
    batch.taken.append(task)


def _write(tx: Transaction, queue: int, batch: _Batch) -> None:
    for seq in batch.dead:
        _let_expire(tx, seq)
    for seq in batch.broken:
        set_aside(tx, seq)
    if batch.gone and batch.passed:
        tx.db.executemany(LIFE.delete_ready, batch.gone)
    elif batch.gone:
        tx.db.execute(LIFE.delete_ready_to, batch.gone[-1])  # a third of the cost, row for row
    if batch.stamps:
        write(tx.db, LIFE.stamp, batch.stamps)
        tx.hint_timer(min(batch.timers))
        tx.count(queue, State.PENDING, -len(batch.stamps))
        tx.count(queue, State.ACTIVE, len(batch.stamps))
    for task in batch.taken:
        if task.definition.unique_key is not None:
            _free_key(tx, task)


def _stamp(tx: Transaction, request: ClaimRequest, row: Row, index: int) -> Task | None:
    """The record as claimed; None if it does not decode (R28)."""
    seq, fence, status_body, definition_body = row[2], row[7], row[9], row[10]
    try:
        definition = decode_definition(definition_body)
        status = decode_status(status_body)
    except Undecodable:
        return None
    stamp = Stamp(
        f"{request.token}-{index}",
        next_fence(max(fence, status.fence), tx.now),
        request.worker,
        request.token,
        tx.now,
        tx.now + request.lease_ms,
    )
    return stamped(Task(definition=definition, status=status, ref=seq), stamp)


def _free_key(tx: Transaction, task: Task) -> None:
    """A unique key that does not hold while the task is active is freed by the claim (R13)."""
    if State.ACTIVE.value not in task.policy.unique_states:
        tx.db.execute(LIFE.free_key, (task.definition.unique_key, task.definition.id))


def _let_expire(tx: Transaction, seq: int) -> None:
    """A dead entry is not handed out; its timer fires now and expires it (R6)."""
    tx.db.execute(LIFE.timer_now, (seq, tx.now))
    tx.hints.add(TIMER_TOPIC)


def _allowed(tx: Transaction, config: QueueConfig, wanted: int) -> int:
    """How many the queue's own limits let through now."""
    if config.paused:
        return 0
    if config.max_concurrent is not None:
        active = tx.counted(tx.name_id(config.name), State.ACTIVE)
        wanted = min(wanted, config.max_concurrent - active)
    if config.rate_limit is not None:
        wanted = min(wanted, int(_tokens(tx, config)))
    return wanted


def _tokens(tx: Transaction, config: QueueConfig) -> float:
    assert config.rate_limit is not None
    # One claim must always fit, or a rate below one a second would never let any through.
    burst = max(config.rate_burst or math.ceil(config.rate_limit), 1)
    row = tx.db.execute(CONFIG.bucket, (config.name,)).fetchone()
    if row is None:
        return float(burst)
    tokens, at = row
    return min(burst, tokens + (tx.now - at) * config.rate_limit / 1000)


def _draw(tx: Transaction, config: QueueConfig, count: int) -> None:
    tokens = _tokens(tx, config) - count
    tx.db.execute(CONFIG.put_bucket, (config.name, tokens, tx.now))
