"""Draws queues: all of them, and one with its history."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import htpy as h
import msgspec

from andon.dashboard.pages import charts
from andon.dashboard.pages.andon import cord, kept
from andon.dashboard.pages.andon import queues as queue_table
from andon.dashboard.pages.changes import of_queue
from andon.dashboard.pages.parts import age, facts, section
from andon.dashboard.views.andon import Andon, QueueRow
from andon.dashboard.views.looks import line_of

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place
    from andon.model.fleet import DayCounts


def content(place: "Place", view: Andon) -> Iterator["Node"]:
    """All queues."""
    yield h.div(".heading")[
        h.h1["Queues"],
        place.may("queues:read:*")
        and h.div(".tools")[h.a(".button", href=place.to("/types"))["By task type"]],
    ]
    yield queue_table(place, view.queues, view.now)


def one(
    place: "Place",
    row: QueueRow,
    *,
    settings: dict[str, Any],
    texts: dict[str, str],
    days: "Sequence[DayCounts]",
    minutes: "Renderable",
    now: int,
) -> Iterator["Node"]:
    """One queue."""
    yield h.p(".crumbs")[h.a(href=place.to("/queues"))["Queues"]]
    yield h.div(".heading")[
        h.h1[h.bdi[row.name]],
        row.paused and h.span(".state.off")["‖ paused"],
        h.div(".tools")[
            cord(place, row.name, paused=row.paused),
            h.a(".button", href=place.to("/tasks", queue=row.name))["Tasks"],
            h.a(".button", href=place.to("/dead-letters", queue=row.name))["Dead letters"],
        ],
    ]
    yield from one_live(place, row, now)
    yield minutes
    yield section("Last seven days", history(days))
    yield section(
        "Settings",
        facts(
            (name.replace("_", " "), _said(value))
            for name, value in settings.items()
            if name not in ("name", "declared")
        ),
        tools=h.span(".dim")["change them with ", h.code[f"andon queues configure {row.name}"]],
    )
    if place.may(f"queues:manage:{row.name}"):
        yield section("Change them", of_queue(place, row.name, texts), name="change")


def one_live(place: "Place", row: QueueRow, now: int) -> Iterator["Renderable"]:
    """The live fragments of one queue."""
    tasks = [
        ("pending", row.pending, "pending"),
        ("active", row.active, "active"),
        ("completed", row.completed, "completed"),
    ]
    yield h.div("#queue")[
        bool(row.waits) and h.ul(".looks")[(h.li[kept(one)] for one in row.waits[:10])],
        facts(
            [
                *(
                    (name, h.a(href=place.to("/tasks", queue=row.name, state=state))[f"{number:,}"])
                    for name, number, state in tasks
                ),
                ("waits for a time, or others", f"{row.later:,}"),
                ("held back by their key", f"{row.parked:,}" if row.parked else None),
                ("dead letters", f"{row.dead_letters:,}"),
                ("oldest pending", age(row.oldest_at, now) if row.oldest_at else "none"),
                ("workers", f"{row.workers:,}" if row.workers else h.span(".bad")["⚠ none"]),
                ("limits", row.limits or "none"),
            ]
        ),
    ]


def history(days: "Sequence[DayCounts]") -> "Node":
    """A bar for each day: runs that ended, and those of them that failed."""
    rows = [(day.day, day.processed, day.failed) for day in reversed(days)]
    return h.div(".card")[
        charts.bars(rows, label="Runs that ended, by day"),
        h.table[
            h.thead[h.tr[(h.th(scope="col")[name] for name in ("day (UTC)", *_COUNTS))]],
            h.tbody[
                (
                    h.tr[
                        h.th(scope="row")[day.day],
                        h.td(".num")[f"{day.submitted:,}"],
                        h.td(".num")[f"{day.processed:,}"],
                        h.td(".num")[f"{day.failed:,}"],
                    ]
                    for day in days
                )
            ],
        ],
    ]


_COUNTS = ("submitted", "runs ended", "failed")


def _said(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return line_of(msgspec.json.encode(value).decode()) if value else "none"
    return line_of(str(value))
