"""Whether a schedule's occurrences are all there, and none of them twice.

The times are counted here from the interval alone, not by the code that fires them. A time may be
without an occurrence only if nothing fired for longer than is made up for: then the demo was not
running.
"""

from collections.abc import Iterable, Sequence

from andon.lifecycle.recurrence.occurrences import occurrence_of
from andon.model.task import Task


def check(schedule: Task, tasks: Iterable[str], fired_at: Sequence[int]) -> list[str]:
    """What is wrong with the occurrences of a schedule with an interval. `tasks` are the ids of all
    tasks, `fired_at` the times of its moves `recur`, ms UTC, in order."""
    s = schedule.status.schedule
    assert s is not None
    assert s.recurrence.every is not None
    step = s.recurrence.every * 1000
    window = 1000 * (s.recurrence.catch_up_window or 0)
    found = [occurrence_of(task) for task in tasks]
    times = {one[1] for one in found if one is not None and one[0] == schedule.id}
    first = schedule.status.created_at // step * step + step
    regular = range(first, s.after + 1, step)
    problems: list[str] = []
    missing = [at for at in regular if at not in times and not _too_late(at, fired_at, window)]
    if missing:
        problems.append(
            f"{len(missing):,} occurrences of {schedule.id} are missing, the first of the second "
            f"{missing[0] // 1000}."
        )
    asked_for = times - set(regular)  # the first look, which no time asks for
    if len(asked_for) > 1 or any(at >= first for at in asked_for):
        problems.append(f"{schedule.id} has {len(asked_for):,} occurrences that are of no time.")
    there = len(times) - len(asked_for)
    if s.fired != there:
        problems.append(f"{schedule.id} has fired {s.fired:,} times, and {there:,} are there.")
    return problems


def _too_late(at: int, fired_at: Sequence[int], window: float) -> bool:
    """Whether a time lay further back than is made up for when the schedule fired next."""
    following = next((fired for fired in fired_at if fired >= at), None)
    return following is not None and following > at + window
