"""Makes a namespace, or checks that Andon made it and that it fits."""

import secrets
from typing import Any

from andon.model.errors import ConfigurationError, StoreIncompatible
from andon.stores.redis.listing import enter_lists
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.scripts import WRITER_VERSION

SCHEMA_VERSION = 2
"""2: ready tasks stand in lanes by kind."""

_UNLISTED = b"1"
"""The mark of a partition whose tasks still have to be entered in the lists by name."""


async def set_up(partitions: Partitions) -> None:
    """Set up what is missing; use the number of partitions that is recorded."""
    location = partitions.location
    wanted = location.partitions
    first = await _prepare(partitions, 0, wanted or 1)
    recorded = int(first[4])
    if wanted is not None and wanted != recorded:
        raise ConfigurationError(
            f"The store at {location.shown} was made with partitions={recorded}; "
            f"partitions={wanted} cannot be had there. Leave the option out."
        )
    partitions.count = recorded
    others = [await _prepare(partitions, partition, recorded) for partition in range(1, recorded)]
    partitions.set_up = _set_up_again
    for partition, reply in enumerate((first, *others)):
        if reply[5] == _UNLISTED:
            await enter_lists(partitions, partition)


async def _set_up_again(partitions: Partitions, partition: int) -> None:
    reply = await _prepare(partitions, partition, partitions.count)
    if reply[5] == _UNLISTED:
        await enter_lists(partitions, partition)


async def _prepare(partitions: Partitions, partition: int, count: int) -> list[Any]:
    shown = partitions.location.shown
    mark = secrets.token_hex(4)
    arguments = (mark, str(SCHEMA_VERSION), str(WRITER_VERSION), str(count))
    reply = await partitions.run("setup", partition, arguments)
    if reply[1] == b"strange":
        raise StoreIncompatible(
            f"At {shown}, another application uses keys under our namespace. "
            "Choose another with ?namespace=NAME."
        )
    schema, min_writer = int(reply[2]), int(reply[3])
    if schema > SCHEMA_VERSION or min_writer > WRITER_VERSION:
        raise StoreIncompatible(
            f"The store at {shown} has schema {schema} and is written as version {min_writer}, "
            f"made by a newer release; this one knows {SCHEMA_VERSION} and {WRITER_VERSION}. "
            "Upgrade Andon here."
        )
    if schema < SCHEMA_VERSION:
        raise StoreIncompatible(
            f"The store at {shown} has schema {schema}, made before Andon's first release; this "
            f"one knows {SCHEMA_VERSION} only. Choose another namespace with ?namespace=NAME, and "
            "copy what is worth it by way of another store, with the Andon that made this one."
        )
    return reply
