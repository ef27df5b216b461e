"""Enters tasks of an older release in the lists by name, once, as a store is opened.

Only the record says which lists those are (`lifecycle.indexes.lists_of`), so every record is read.
Writers of older releases are kept out before it begins (`setup.lua`), and tasks that move meanwhile
are entered by their moves. If it is cut short anywhere, the next process that opens the store
begins it anew.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from andon.lifecycle.indexes import entry_of
from andon.model.words import State
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.reading import queue_names
from andon.stores.redis.records import body, packed_entry, task_of

if TYPE_CHECKING:
    import msgspec

logger = logging.getLogger("andon.redis")

_PAGE = 500
_ROW = 7


async def enter_lists(at: Partitions, partition: int) -> None:
    """Enter the tasks of a partition in the lists that they stand in."""
    logger.info("tasks of an older release are entered in the lists by name; once")
    for queue in await queue_names(at):
        for state in State:
            await _enter_all(at, partition, f"state:{queue}|{state.value}")
    await at.look(partition, b"HDEL", "meta", "unlisted")


async def _enter_all(at: Partitions, partition: int, name: str) -> None:
    position = "0"
    while True:
        reply = await at.look(partition, b"ZSCAN", name, position, "COUNT", _PAGE)
        position = reply[0].decode()
        ids = [task_id.decode() for task_id in reply[1][::2]]
        if ids and (items := await _items(at, partition, ids)):
            await at.run("enter_lists", partition, items)
        if position == "0":
            return


async def _items(at: Partitions, partition: int, ids: Sequence[str]) -> list[tuple[Any, ...]]:
    """The records that stand in lists, as `enter_lists.lua` takes them."""
    reply = await at.run("get", partition, ids)
    items: list[tuple[Any, ...]] = []
    for i, task_id in enumerate(ids):
        parts = reply[2 + i * _ROW : 1 + (i + 1) * _ROW]
        task = task_of(task_id, parts)
        if task is None or not (lists := entry_of(task).lists):
            continue
        packed: str | msgspec.Raw = ""
        if task.state is not State.ACTIVE:
            packed = packed_entry(entry_of(task), task, task.status)
        items.append((body(parts[-1]), str(task.status.created_at), lists, packed, task_id))
    return items
