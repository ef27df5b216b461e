"""Durations, sizes, counts and times in words, the same wherever a person reads them. Pure."""

from andon.model.task import Task


def span(seconds: float) -> str:
    """A duration in its two largest units: `1d 3h`, `45s`, `0.2s`."""
    if seconds < 10:
        return f"{seconds:.1f}s" if seconds % 1 else f"{seconds:.0f}s"
    left = round(seconds)
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def ago(ms: int, now: int) -> str:
    """How long ago, or in how long."""
    seconds = (now - ms) / 1000
    if abs(seconds) < 1:
        return "now"
    return f"{span(round(seconds))} ago" if seconds > 0 else f"in {span(round(-seconds))}"


def size_of(count: float) -> str:
    """Bytes in the largest unit that fits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


ACCIDENTS = {
    "process_crash": "after a process crash",
    "os_crash": "after an OS crash",
    "power_cut": "after a power cut",
}
"""The keys of `StoreInfo.durability` in words."""


def plural(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def times_of(task: Task) -> list[tuple[str, int | None]]:
    """The times of a task, each with what it is called; ms UTC, None if there is none."""
    s, cell = task.status, task.cell
    return [
        ("created", s.created_at),
        ("runs at", s.run_at),
        ("first start", s.started_at),
        ("last start", s.retried_at),
        ("finished", s.finished_at),
        ("deadline", s.deadline),
        ("expires", s.expires_at),
        ("cancel asked", s.cancel_requested_at),
        ("lease until", None if cell is None else cell.lease_until),
        ("heartbeat", None if cell is None else cell.heartbeat_at),
    ]
