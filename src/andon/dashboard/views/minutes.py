"""The last hour or day, minute by minute, from the roll-ups that timekeepers write."""

from collections.abc import Iterable, Sequence

import msgspec

from andon.lifecycle.minutes import added
from andon.model.minutes import MinuteCounts, MinuteHistory

MINUTE_MS = 60_000


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Some minutes that are drawn as one."""

    at: int  #: beginning, ms UTC
    is_known: bool  #: False: it has no roll-up
    ended: int  #: runs that ended
    failed: int  #: those of them that failed
    wait: tuple[int, ...]  #: of a sample, how many waited how long: by band
    run: tuple[int, ...]  #: how many ran how long


class Minutes(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time, cut into slices, the oldest first."""

    slices: list[Slice]
    minutes_each: int
    bands_ms: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known, or nothing happened."""
        return not any(one.ended for one in self.slices)


def minutes_of(
    history: MinuteHistory, queues: Iterable[str] | None = None, *, each: int = 1
) -> Minutes:
    """The minutes of these queues together, or of all; `each` is how many are drawn as one."""
    wanted = None if queues is None else set(queues)
    by_slice: dict[int, list[MinuteCounts]] = {}
    width = each * MINUTE_MS
    for series in history.series:
        if wanted is not None and series.name not in wanted:
            continue
        for point in series.points:
            by_slice.setdefault((point.at - history.since) // width, []).append(point.counts)
    missing = {(at - history.since) // width for at in history.missing}
    count = max(0, -(-(history.until - history.since) // width))
    return Minutes(
        slices=[
            _slice(history.since + place * width, by_slice.get(place, ()), place not in missing)
            for place in range(count)
        ],
        minutes_each=each,
        bands_ms=history.bands_ms,
    )


def _slice(at: int, counts: Sequence[MinuteCounts], is_known: bool) -> Slice:
    whole = added(counts)
    return Slice(
        at=at,
        is_known=is_known or bool(counts),
        ended=whole.finished + whole.failed,
        failed=whole.failed,
        wait=whole.wait,
        run=whole.run,
    )
