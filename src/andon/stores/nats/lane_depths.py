"""Keeps about how many tasks are pending in each lane that this process reads.

A page of messages carries the number of those that follow, and to count them the server visits
every pending task of the lane. So where many are pending, a few messages are read one by one, which
costs the server no more than what it finds.
"""

import math
import time
from typing import TYPE_CHECKING

from andon.stores.nats.context import StoreContext

if TYPE_CHECKING:
    from andon.stores.nats.record_cache import RecordCache

_DEEP = 2_000
"""With fewer pending in a lane, pages are read."""

_PENDING_TO_ONE = 1_000
"""Counting so many pending tasks costs about as much as four requests for one message: a page that
is read ahead serves about four claims."""

_KNOWN_S = 30.0
"""How long the number is believed. It only decides how to read, so it may be wrong."""

_SHARE = 0.01
"""The share of the time that the server may spend on these counts."""


class LaneDepths:
    """How many tasks are pending in the lanes of one partition."""

    def __init__(self, context: StoreContext, partition: int) -> None:
        self._context = context
        self._records: RecordCache = context.records[partition]
        self._depths: dict[int, int] = {}
        self._counted_at: dict[int, float] = {}
        self._pause_until = -math.inf

    def are_read_singly(self, lane: int, wanted: int) -> bool:
        """Whether so many messages of a sub-queue in that lane cost less one by one than as a page.
        False until the lane has been counted."""
        now = time.monotonic()
        if now >= max(self._pause_until, self._counted_at.get(lane, -math.inf) + _KNOWN_S):
            self._pause_until = now + _KNOWN_S  # one count at a time
            self._context.in_background(self._count(lane))
        return self._depths.get(lane, 0) > max(_DEEP, wanted * _PENDING_TO_ONE)

    async def _count(self, lane: int) -> None:
        began = time.monotonic()
        page, more = await self._records.page(self._records.subjects.lane(lane), 1, 1)
        now = time.monotonic()
        self._depths[lane], self._counted_at[lane] = len(page) + more, now
        self._pause_until = now + (now - began) / _SHARE
