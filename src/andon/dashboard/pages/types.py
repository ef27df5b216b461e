"""Draws task types: how many runs of each ended, and how long they waited and took."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages import history
from andon.dashboard.pages.charts import middle_band
from andon.dashboard.pages.parts import count, table
from andon.dashboard.views.looks import line_of
from andon.dashboard.views.types import TypeRow, Types
from andon.model.minutes import OTHERS

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place
    from andon.dashboard.views.minutes import Minutes


def content(place: "Place", view: Types) -> Iterator["Node"]:
    """All types with runs that ended in the last day."""
    yield h.p(".crumbs")[h.a(href=place.to("/queues"))["Queues"]]
    yield h.h1["Task types"]
    yield rows(place, view)


def rows(place: "Place", view: Types) -> "Renderable":
    """A row for each type, and what the numbers are based on."""
    return h.div("#types")[
        h.p(".dim")[_of_what(is_whole=view.whole)],
        table(
            "types-table",
            ["task type", "ended, last hour", "failed", "waited", "took", "ended, last day",
             "failed"],
            (_row(place, row, view) for row in view.rows),
            empty="No run has ended in the last day, as far as timekeepers have rolled it up.",
            label="Task types",
        ),
        view.more > 0 and h.p(".dim")[f"And {view.more:,} more types, of which fewer ended."],
    ]  # fmt: skip


def _of_what(*, is_whole: bool) -> str:
    if is_whole:
        return "Every run that ended, but for those of tasks that are discarded at their end."
    return (
        "Of a sample: in a busy minute not every run that ended is looked at, so numbers tell the "
        "shares of types. Those of queues are exact."
    )


def _row(place: "Place", row: TypeRow, view: Types) -> "Renderable":
    hour, day = row.hour, row.day
    name = h.bdi[line_of(row.name, 120)]
    return h.tr(data_row="")[
        h.th(scope="row")[name if row.name == OTHERS else h.a(href=_to(place, row.name))[name]],
        h.td[count(hour.finished + hour.failed)],
        h.td[count(hour.failed)],
        h.td[middle_band(hour.wait, view.bands_ms) or h.span(".dim")["·"]],
        h.td[middle_band(hour.run, view.bands_ms) or h.span(".dim")["·"]],
        h.td[count(day.finished + day.failed)],
        h.td[count(day.failed)],
    ]


def _to(place: "Place", name: str) -> str:
    return place.named("types", name)


def one(
    place: "Place", name: str, hour: "Minutes", day: "Minutes", *, is_whole: bool
) -> Iterator["Node"]:
    """One type over the last hour and day."""
    yield h.p(".crumbs")[
        h.a(href=place.to("/queues"))["Queues"], " / ", h.a(href=place.to("/types"))["Task types"]
    ]
    yield h.div(".heading")[
        h.h1[h.bdi[line_of(name, 120)]],
        h.div(".tools")[h.a(".button", href=place.to("/tasks", name=name))["Its tasks"]],
    ]
    yield charts(hour, day, is_whole=is_whole)


def charts(hour: "Minutes", day: "Minutes", *, is_whole: bool) -> "Renderable":
    """The charts of a type, and what they are based on."""
    return h.div("#of-type")[h.p(".dim")[_of_what(is_whole=is_whole)], history.cards(hour, day)]
