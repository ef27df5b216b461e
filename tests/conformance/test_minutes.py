"""One-minute roll-ups on every store, by its own clock moved on: counts, sample, and one writer."""

import asyncio
from random import Random
from typing import Any, cast

from andon.contract.store import Store
from andon.engine.rollups import Rollups
from andon.lifecycle.commands import Complete, Fail
from andon.lifecycle.minutes import MINUTE_MS
from andon.model.task import TaskError

from .kit import Kit


class MovedOn:
    """A store that tells a later time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at = store.now() // MINUTE_MS * MINUTE_MS + 2_000  # a minute has begun a moment ago
        self.ahead = 0

    def now(self) -> int:
        return self._at + self.ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def moved_on(store: Store) -> tuple[MovedOn, Store]:
    made = MovedOn(store)
    return made, cast("Store", made)


async def test_a_minute_is_rolled_up_once_from_what_the_store_counts(kit: Kit) -> None:
    clock, store = moved_on(kit.store)
    keepers = [Rollups(store, Random(seed)) for seed in range(3)]
    await keepers[0].roll_up()
    done = await kit.active(queue="q", name="mail")
    failed = await kit.active(queue="q", name="post")
    await kit.submit(queue="other")
    await kit.move(done, Complete())
    await kit.move(failed, Fail(error=TaskError(message="no"), retryable=False))
    clock.ahead += MINUTE_MS
    rows = [row for row in await asyncio.gather(*(one.roll_up() for one in keepers)) if row]
    (row,) = rows
    q = row.queues["q"]
    assert (q.submitted, q.started, q.finished, q.failed) == (2, 2, 1, 1)
    assert (q.sampled, sum(q.wait), sum(q.run), row.whole) == (2, 2, 2, True)
    assert {name: (c.finished, c.failed) for name, c in row.types.items()} == {
        "mail": (1, 0),
        "post": (0, 1),
    }
    assert (row.queues["other"].submitted, row.queues["other"].pending) == (1, 1)

    clock.ahead += MINUTE_MS
    assert await keepers[1].roll_up() is None  # nothing has happened
    await kit.submit(queue="other")
    clock.ahead += MINUTE_MS
    (row,) = [row for row in await asyncio.gather(*(one.roll_up() for one in keepers)) if row]
    assert (row.queues["other"].submitted, row.queues["other"].pending) == (1, 2)
    history = await keepers[2].history(None, 3)
    assert history.missing == ()
    assert [series.name for series in history.series] == ["other", "q"]
    assert [len(series.points) for series in history.series] == [2, 1]
