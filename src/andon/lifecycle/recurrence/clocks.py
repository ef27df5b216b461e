"""Maps the matches of a cron expression to times in a zone, also across clock changes. Pure.

- An expression *by the clock* (one whose second, minute or hour begins with `*`) fires whenever the
  clocks show what it matches: not in what they leap over, and twice in what they show twice.
- One of *fixed times* fires when the clocks first show its time or a later one: at the end of what
  they leap over, and the first time only of what they show twice.

Each is a generator of times in order, without an end but the expression's own.
"""

from collections.abc import Iterator

from andon.lifecycle.recurrence.cron import Cron
from andon.lifecycle.recurrence.zones import BLOCK, Zone


def fires(cron: Cron, zone: Zone, after: int) -> Iterator[int]:
    """When the expression fires, strictly later than `after`."""
    return _by_the_clock(cron, zone, after) if cron.by_clock else _fixed(cron, zone, after)


def _by_the_clock(cron: Cron, zone: Zone, after: int) -> Iterator[int]:
    first: int | None = after + 1
    while first is not None:
        begin, offset = first, zone.offset(first)
        quiet, first = begin, None  # up to `quiet` the offset is known to stay
        for wall in cron.walls(begin + offset):
            at = wall - offset
            if at > quiet:
                until = max(at, quiet + BLOCK)
                change = zone.next_change(quiet, until)
                if change is not None and change.at <= at:
                    first = change.at
                    break
                quiet = until if change is None else change.at - 1
            yield at


def _fixed(cron: Cron, zone: Zone, after: int) -> Iterator[int]:
    quiet: int = after
    last, offset = after, zone.offset(after)
    for wall in cron.walls(zone.reached(after) + 1):
        at: int = wall - offset
        while at > quiet:
            until = max(at, quiet + BLOCK)
            change = zone.next_change(quiet, until)
            if change is None or change.at > at:
                quiet = until if change is None else change.at - 1
                break
            quiet, offset = change.at, change.after
            at = max(wall - offset, change.at)  # the leap's end, if the clocks leapt over it
        if at > last:  # all that they leap over falls on one time
            yield at
            last = at
