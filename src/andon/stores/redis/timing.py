"""Takes timers, postpones them, and sets them anew."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from andon.contract.isolation import Unwritable
from andon.contract.outcomes import Due
from andon.contract.refusals import timer_refused
from andon.model.words import State
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import MOST_COUNTED, damage, records_in

if TYPE_CHECKING:
    from andon.model.task import Task


class Held(dict[str, int]):
    """Timers that this process has taken, by task, with the time until which they are held: a timer
    that has another time by now was set by a move, and is not changed."""

    def hold(self, task_id: str, until: int, now: int) -> None:
        """Note a timer that was taken; those held in vain are forgotten from time to time."""
        self[task_id] = until
        if len(self) % 1_000 == 0:
            for passed in [name for name, at in self.items() if at <= now]:
                del self[passed]


async def take_due(at: Partitions, partition: int, limit: int, hold_ms: int, held: Held) -> Due:
    """Take tasks whose timer has passed, and postpone their timers. A lease that ran out while the
    store was away waits (docs/rulings.md, R19)."""
    reply = await at.run("take_due", partition, (limit, hold_ms, at.clock.patience))
    now = reply[0]
    tasks: list[Task] = []
    broken: list[str] = []
    for task_id, task in records_in(reply, 2):
        if task.state is State.UNKNOWN:
            broken.append(task_id)
            continue
        held.hold(task_id, now + hold_ms, now)
        tasks.append(task)
    if broken:
        await at.run("set_aside", partition, broken)
    return Due(tuple(tasks), now, int(reply[1]) if reply[1] else None)


Timer = tuple[str, int | None]


async def rearm(at: Partitions, held: Held, timers: Sequence[Timer]) -> list[None]:
    """Set timers anew, unless a move has set its own since they were taken."""
    for _, timer in timers:
        if timer is not None and abs(timer) > MOST_COUNTED:
            raise Unwritable(f"{timer} ms is a time beyond what a Redis store can keep")
    taken = [(task_id, timer, held.get(task_id)) for task_id, timer in timers]
    items = [item for item in taken if item[2] is not None]
    replies: list[Any] = await at.spread("rearm", items, [task_id for task_id, _, _ in items])
    for item, reply in zip(items, replies, strict=True):
        if isinstance(reply, list):
            timer_refused(item, damage(cast("bytes", reply[1])))
    for task_id, _ in timers:
        held.pop(task_id, None)
    return [None] * len(timers)
