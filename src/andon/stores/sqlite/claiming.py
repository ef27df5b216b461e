"""Claiming: the one move made inside the store, by writing a fixed stamp."""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heappop, heappush

from andon.contract.limits import SCAN_BUDGET
from andon.contract.requests import ClaimRequest
from andon.contract.topics import TIMER_TOPIC
from andon.lifecycle.apply import next_fence, stamped
from andon.lifecycle.routing import name_of_kind
from andon.lifecycle.token_bucket import claims_allowed, tokens_at
from andon.lifecycle.unique import key_freed_by_claim
from andon.model.fleet import QueueConfig
from andon.model.task import Stamp, Task
from andon.model.words import State
from andon.stores.kit.codec import Row, Undecodable, decode_definition, decode_status
from andon.stores.kit.known_codes import KnownCodes
from andon.stores.sqlite.committing import set_aside
from andon.stores.sqlite.lanes import Bound, awake, raise_bound, sleep
from andon.stores.sqlite.reading import read_task_by_seq
from andon.stores.sqlite.rows import write
from andon.stores.sqlite.statements import CONFIG, LANES, LIFE
from andon.stores.sqlite.transaction import Transaction

FEW_QUEUES = 8
"""Up to so many queues are read one by one; if more are asked for, empty ones are skipped by the
query."""

MOST_STALE = 8
"""Empty lanes awake, or bounds too low, that a claim which writes nothing else leaves as they are:
it costs the next claim less to meet them than this one a flush of the disk to tidy up."""

Entry = tuple[int, int, int]
"""Level, order and record key: the place of a ready task in its lane, and among all of a queue."""

_AFTER_ALL: Entry = (2**62, 0, 0)


def claim(tx: Transaction, request: ClaimRequest, codes: KnownCodes) -> list[Task]:
    """Hand out tasks for which there is room and code, in the order of the queues asked."""
    again = tx.db.execute(LIFE.claimed, (request.token,)).fetchone()
    before: list[int] = [] if again is None else json.loads(again[0])
    if before:
        same = _same_again(tx, request, before)
        if same:
            return same
    # Runs that the token was given before count, too, so that no run id is used twice.
    batch = _Batch(request, codes, first=len(before))
    for name, queue in _queues(tx, request):
        wanted = request.limit - len(batch.taken)
        if wanted <= 0:
            break
        config = tx.configs.get(name)
        allowed = wanted if config is None else _allowed(tx, config, wanted)
        if allowed > 0:
            took = _claim_queue(tx, batch, queue, allowed)
            if config is not None and config.rate_limit is not None:
                _draw(tx, config, took)
    stale = len(batch.empty) + len(batch.low)
    if stale > (0 if batch.taken else MOST_STALE):
        _tidy_up(tx, batch)
    if batch.taken:
        seqs = json.dumps([*before, *(task.ref for task in batch.taken)])
        tx.db.execute(LIFE.insert_claim, (request.token, tx.now, seqs))
    return batch.taken


def _same_again(tx: Transaction, request: ClaimRequest, seqs: Sequence[int]) -> list[Task]:
    """The runs this token was given, while they are active (docs/rulings.md, R31)."""
    tasks = (read_task_by_seq(tx.db, seq) for seq in seqs)
    return [
        task
        for task in tasks
        if task is not None
        and task.state is State.ACTIVE
        and task.status.run.startswith(f"{request.token}-")
    ]


def _queues(tx: Transaction, request: ClaimRequest) -> Iterator[tuple[str, int]]:
    """The queues asked for, by name and id, in their order; if they are many, only those that may
    hold something."""
    if len(request.queues) <= FEW_QUEUES:
        for name in request.queues:
            queue = tx.known_id(name)
            if queue is not None:
                yield name, queue
        return
    asked = _places_in_order(request.queues)
    found: list[tuple[int, str, int]] = []
    for (place,) in tx.db.execute(LANES.awake_places).fetchall():
        queue, partition = divmod(place, tx.partitions)
        name = tx.name_of(queue)
        if partition == request.partition and name in asked:
            found.append((asked[name], name, queue))
    for _, name, queue in sorted(found):
        yield name, queue


@lru_cache(maxsize=16)
def _places_in_order(queues: tuple[str, ...]) -> dict[str, int]:
    """Where each queue stands among those asked for; workers mostly ask for the same ones."""
    return {name: place for place, name in reversed(list(enumerate(queues)))}


class _Batch:
    """What a claim found. Each queue's part is written when the look at it is over."""

    def __init__(self, request: ClaimRequest, codes: KnownCodes, *, first: int) -> None:
        self.request = request
        self.first = first  #: number of the first run
        self.room = dict(request.room)
        self.may = codes.kinds_of(request.code)
        self.taken: list[Task] = []
        self.looked = 0  # entries that were met and cannot be handed out
        self.empty: list[int] = []  # lanes
        self.low: dict[int, Bound] = {}  # lanes whose bound was too low, and what it may be


class _Part:
    """What a claim took of one queue."""

    def __init__(self) -> None:
        self.stamps: list[tuple[object, ...]] = []
        self.timers: list[int] = []
        self.last: dict[int, Entry] = {}  # by lane, the last entry used up
        self.dead: list[tuple[int, int, int, int]] = []  # entries not to be handed out any more
        self.broken: list[int] = []  # records that do not decode
        self.keyed: list[Task] = []  # with a unique key


class _Line:
    """The lanes of one place that a claim may take from, first come first."""

    def __init__(self, tx: Transaction, batch: _Batch, place: int) -> None:
        self._tx = tx
        self._batch = batch
        self._rows = iter(awake(tx, place))
        self._opened: list[tuple[Entry, int, str]] = []
        self._next = self._claimable()

    def _claimable(self) -> tuple[Bound, int, str] | None:
        """The next lane, by its bound, that the worker has code and room for."""
        may, room = self._batch.may, self._batch.room
        for lane, kind, level, order in self._rows:
            if may(kind):
                name = name_of_kind(kind)
                if room.get(name, 1) > 0:
                    return (level, order), lane, name
        return None

    def only(self) -> tuple[int, str] | None:
        """The one lane, with its task name, if there is no other that a claim may take from."""
        first = self._next
        if first is None or self._opened:
            return None
        self._next = self._claimable()
        if self._next is None:
            return first[1], first[2]
        self._open(first)
        return None

    def _open(self, found: tuple[Bound, int, str]) -> None:
        bound, lane, name = found
        head: Entry | None = self._tx.db.execute(LANES.first, (lane,)).fetchone()
        if head is None:
            self._batch.empty.append(lane)
            return
        if head[:2] != bound:
            self._batch.low[lane] = head[:2]
        heappush(self._opened, (head, lane, name))

    def pop(self) -> tuple[int, str, Entry, Entry] | None:
        """The lane that is first now, with its task name, its first entry, and the last entry up
        to which it stays first."""
        while self._next is not None and (
            not self._opened or self._next[0] <= self._opened[0][0][:2]
        ):
            found, self._next = self._next, self._claimable()
            self._open(found)
        if not self._opened:
            return None
        head, lane, name = heappop(self._opened)
        until = self._opened[0][0] if self._opened else _AFTER_ALL
        if self._next is not None and self._next[0] < until[:2]:
            until = (*self._next[0], -1)
        return lane, name, head, until

    def push(self, lane: int, name: str, last: Entry) -> None:
        """Put a lane back, of which everything up to `last` is used up."""
        head = self._tx.db.execute(LANES.first_after, (lane, *last)).fetchone()
        if head is None:
            self._batch.empty.append(lane)
            self._batch.low.pop(lane, None)
        else:
            self._batch.low[lane] = head[:2]
            heappush(self._opened, (head, lane, name))


def _claim_queue(tx: Transaction, batch: _Batch, queue: int, limit: int) -> int:
    """Take up to `limit` tasks of a queue. Returns how many."""
    part = _Part()
    place = tx.place(queue, batch.request.partition)
    known = tx.memory.awake.get(place)
    if known is not None and len(known) == 1:  # nearly always, so it has a shorter way
        lane, kind, _, _ = known[0]
        if batch.may(kind):
            _from_one_lane(tx, batch, part, (lane, name_of_kind(kind)), limit)
    else:
        line = _Line(tx, batch, place)
        only = line.only()
        if only is not None:
            _from_one_lane(tx, batch, part, only, limit)
        else:
            _from_lanes(tx, batch, part, line, limit)
    if part.last:
        _write(tx, queue, part)
    if batch.looked >= SCAN_BUDGET:  # tasks behind them must not wait for the slow poll
        tx.hint_ready(tx.name_of(queue))
    return len(part.stamps)


def _from_one_lane(
    tx: Transaction, batch: _Batch, part: _Part, of: tuple[int, str], limit: int
) -> None:
    lane, name = of
    wanted = _room(batch, name, limit)
    if wanted <= 0:
        return
    rows = tx.db.execute(LANES.candidates, (lane, wanted)).fetchall()
    if not rows:
        batch.empty.append(lane)
    while rows:
        last = _take_rows(tx, batch, part, of, rows)
        if len(part.stamps) >= limit or len(rows) < wanted or batch.looked >= SCAN_BUDGET:
            return
        wanted = _room(batch, name, limit - len(part.stamps))
        if wanted <= 0:
            return
        between = (lane, *last, *_AFTER_ALL, wanted)
        rows = tx.db.execute(LANES.candidates_between, between).fetchall()


def _from_lanes(tx: Transaction, batch: _Batch, part: _Part, line: _Line, limit: int) -> None:
    while batch.looked < SCAN_BUDGET and (found := line.pop()):
        lane, name, head, until = found
        wanted = _room(batch, name, limit - len(part.stamps))
        if wanted <= 0:  # used up by another kind of this name
            continue
        after = (head[0], head[1], head[2] - 1)
        between = (lane, *after, *max(until, head), wanted)
        rows = tx.db.execute(LANES.candidates_between, between).fetchall()
        last = _take_rows(tx, batch, part, (lane, name), rows)
        if len(part.stamps) >= limit:
            return
        line.push(lane, name, last)


def _room(batch: _Batch, name: str, limit: int) -> int:
    return min(limit, batch.room.get(name, limit))


def _take_rows(
    tx: Transaction, batch: _Batch, part: _Part, of: tuple[int, str], rows: Sequence[Row]
) -> Entry:
    """Take these rows of a lane (given with its task name), which are all up to the last of them;
    the place of that."""
    lane, name = of
    for row in rows:
        dead_at = row[3]
        if dead_at is not None and dead_at <= tx.now:
            part.dead.append((lane, row[0], row[1], row[2]))
            batch.looked += 1
        else:
            _take(tx, batch, part, row)
            if name in batch.room:
                batch.room[name] -= 1
    level, order, seq = rows[-1][:3]
    part.last[lane] = level, order, seq
    return level, order, seq


def _take(tx: Transaction, batch: _Batch, part: _Part, row: Row) -> None:
    _level, _order, seq, dead_at, first_limit = row[:5]
    request = batch.request
    task = _stamp(tx, request, row, batch.first + len(batch.taken))
    if task is None:
        part.broken.append(seq)
        batch.looked += 1
        return
    timer = lease_until = tx.now + request.lease_ms
    if first_limit is not None:
        timer = min(timer, tx.now + first_limit)
    if dead_at is not None:
        timer = min(timer, dead_at)
    status = task.status
    pos = tx.add_event(seq, task.definition.id, status.events[-1], row[6])
    part.stamps.append(
        (seq, timer, status.run, status.fence, request.worker, request.token, tx.now,
         lease_until, pos)
    )  # fmt: skip
    part.timers.append(timer)
    batch.taken.append(task)
    if task.definition.unique_key is not None:
        part.keyed.append(task)


def _write(tx: Transaction, queue: int, part: _Part) -> None:
    for entry in part.dead:
        tx.db.execute(LANES.put_aside, entry)
        _let_expire(tx, entry[3])
    for lane, last in part.last.items():
        tx.db.execute(LANES.delete_ready_to, (lane, *last))  # a third of the cost, row for row
    for seq in part.broken:
        set_aside(tx, seq, stands_ready=False)
    if part.stamps:
        write(tx.db, LIFE.stamp, part.stamps)
        tx.hint_timer(min(part.timers))
        tx.count(queue, State.PENDING, -len(part.stamps))
        tx.count(queue, State.ACTIVE, len(part.stamps))
    for task in part.keyed:
        _free_key(tx, task)


def _tidy_up(tx: Transaction, batch: _Batch) -> None:
    """Lanes found empty are not met again, and bounds are as high as they were found to be."""
    for lane in batch.empty:
        sleep(tx, lane)
    for lane, bound in batch.low.items():
        raise_bound(tx, lane, bound)


def _stamp(tx: Transaction, request: ClaimRequest, row: Row, index: int) -> Task | None:
    """The record as claimed; None if it does not decode (docs/rulings.md, R28)."""
    seq, fence, status_body, definition_body = row[2], row[5], row[7], row[8]
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
    """A unique key that does not hold while the task is active is freed by the claim
    (docs/rulings.md, R13)."""
    key = key_freed_by_claim(task)
    if key is not None:
        tx.db.execute(LIFE.free_key, (key, task.definition.id))


def _let_expire(tx: Transaction, seq: int) -> None:
    """A dead entry is not handed out; its timer fires now and expires it (docs/rulings.md, R6)."""
    tx.db.execute(LIFE.timer_now, (seq, tx.now))
    tx.hints.add(TIMER_TOPIC)


def _allowed(tx: Transaction, config: QueueConfig, wanted: int) -> int:
    """How many tasks the queue's own limits let through now."""
    if config.paused:
        return 0
    if config.max_concurrent is not None:
        active = tx.counted(tx.name_id(config.name), State.ACTIVE)
        wanted = min(wanted, config.max_concurrent - active)
    if config.rate_limit is not None:
        wanted = min(wanted, claims_allowed(_tokens(tx, config)))
    return wanted


def _tokens(tx: Transaction, config: QueueConfig) -> float:
    row = tx.db.execute(CONFIG.bucket, (config.name,)).fetchone()
    return tokens_at(config, row, tx.now)


def _draw(tx: Transaction, config: QueueConfig, count: int) -> None:
    tokens = _tokens(tx, config) - count
    tx.db.execute(CONFIG.put_bucket, (config.name, tokens, tx.now))
