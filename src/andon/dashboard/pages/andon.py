"""Draws the first page: stations, flow, queues and workers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages import charts
from andon.dashboard.pages.parts import act, age, count, meter, queue_link, section, table
from andon.dashboard.views.andon import Andon, Fleet, Kept, QueueRow, Station
from andon.dashboard.views.looks import line_of
from andon.dashboard.views.rates import KEPT_MS, per_second

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place

_NEW = (
    "There is no queue yet: the first task makes one. Submit one from your code, or with "
    "andon submit NAME."
)


def fragments(place: "Place", view: Andon) -> Iterator["Renderable"]:
    """The live fragments of the page, each with an id of its own."""
    yield stations(place, view)
    yield summary(place, view)
    yield queues(place, view.queues, view.now)


def content(place: "Place", view: Andon) -> Iterator["Node"]:
    """The whole page."""
    board, sums, lines = fragments(place, view)
    yield h.h1(".unseen")["The andon"]
    yield board
    yield sums
    yield section("Queues", lines)


def stations(place: "Place", view: Andon) -> "Renderable":
    """The line: how many tasks wait, are ready, run and have ended, and the rates."""
    return h.section("#stations.line", aria_label="Stations")[
        h.div(".bay")[h.h2["Waits"], [_station(place, one) for one in view.waits]],
        _arrow(f"{per_second(view.rates.submitted)}/s", "in", known=view.rates.is_known),
        h.div(".bay")[
            h.h2["Ready"],
            _station(place, view.ready, large=True),
            h.p(".beside")[
                ("oldest ", age(view.oldest_at, view.now)) if view.oldest_at else "nothing waits"
            ],
        ],
        _arrow("", "claim", known=True),
        h.div(".bay")[
            h.h2["Runs"],
            _station(place, view.runs, large=True),
            view.fleet is not None and _slots(view.fleet),
        ],
        _arrow(
            f"{per_second(view.rates.processed)}/s",
            "out",
            known=view.rates.is_known,
            bad=f"{per_second(view.rates.failed)}/s failed" if view.rates.failed >= 0.05 else "",
        ),
        h.div(".bay")[h.h2["Ended"], [_station(place, one) for one in view.ends]],
    ]


def _station(place: "Place", one: Station, *, large: bool = False) -> "Renderable":
    recurs = one.state == "recurring"
    href = place.to("/schedules") if recurs else place.to("/tasks", state=one.state)
    return h.a(
        href=href, class_=["station", one.look.tone, {"large": large, "none": not one.count}]
    )[
        h.span(".sign", aria_hidden="true")[one.look.sign],
        h.span(".name")["schedules" if recurs else one.state],
        h.span(".num")[f"{one.count:,}"],
    ]


def _arrow(text: str, name: str, *, known: bool, bad: str = "") -> "Renderable":
    return h.div(".arrow")[
        h.span(".rate")[text if known else "…"] if text else None,
        h.svg(viewBox="0 0 40 12", aria_hidden="true")[h.path(d="M0 6H34M29 1L35 6L29 11"),],
        h.span(".what")[name],
        bad and h.span(".rate.bad")["✗ ", bad],
    ]


def _slots(fleet: Fleet) -> "Renderable":
    if not fleet.workers:
        return h.p(".beside.bad")["⚠ no worker is alive"]
    said = f"{fleet.active:,} of {fleet.slots:,} slots, {_workers(fleet)}"
    return h.div(".beside")[meter(fleet.share, said), h.p[said]]


def _workers(fleet: Fleet) -> str:
    quiet = fleet.workers - fleet.running
    return f"{fleet.workers:,} worker{'' if fleet.workers == 1 else 's'}" + (
        f", {quiet:,} quiet" if quiet else ""
    )


def summary(place: "Place", view: Andon) -> "Renderable":
    """What is wrong at the moment, and the rates of the last minutes."""
    paused = view.paused
    return h.section("#summary.summary", aria_label="Summary")[
        h.div(".card")[
            h.div(".heading")[
                h.h2["Throughput"],
                h.p(".dim")[
                    "last three minutes, ",
                    h.span(".key-good")["runs ended"],
                    " ",
                    h.span(".key-bad")["failed"],
                ],
            ],
            charts.throughput(view.line, KEPT_MS),
        ],
        h.div(".card")[
            h.h2["Needs a look"],
            h.ul(".looks")[
                view.dead_letters > 0
                and h.li(".bad")[
                    h.a(href=place.to("/dead-letters"))[f"✗ {_plural(view.dead_letters)}"]
                ],
                [
                    h.li[h.span(aria_hidden="true")["‖ "], queue_link(place, name), " is paused"]
                    for name in paused
                ],
                [
                    h.li[queue_link(place, row.name), ": ", kept(one)]
                    for row in view.queues
                    for one in row.waits[:2]
                ],
                not (view.dead_letters or paused or any(row.waits for row in view.queues))
                and h.li(".good")["✓ nothing"],
            ],
        ],
    ]


def kept(one: Kept) -> "Renderable":
    """Why tasks do not start."""
    if one.is_wrong:
        return h.span(".bad")["⚠ ", h.bdi[line_of(one.text)]]
    return h.span["◷ ", h.bdi[line_of(one.text)]]


def _plural(number: int) -> str:
    return f"{number:,} dead letter{'' if number == 1 else 's'}"


def queues(place: "Place", rows: Sequence[QueueRow], now: int) -> "Renderable":
    """Queues with their cords."""
    return table(
        "queues",
        ["queue", "pending", "oldest", "active", "later", "dead letters", "ends/s", "limits", h.td],
        (_queue(place, row, now) for row in rows),
        empty=_NEW,
        label="Queues",
    )


def _queue(place: "Place", row: QueueRow, now: int) -> "Renderable":
    name = row.name
    link = place.to
    return h.tr(id=f"queue-{name}", data_row="", class_={"paused": row.paused})[
        h.th(scope="row")[
            queue_link(place, name),
            row.paused and h.span(".state.off")[" ‖ paused"],
            not row.paused
            and row.pending > 0
            and not row.workers
            and h.span(".state.bad")[" ⚠ no worker"],
        ],
        h.td[h.a(href=link("/tasks", queue=name, state="pending"))[count(row.pending)]],
        h.td[age(row.oldest_at, now)],
        h.td[h.a(href=link("/tasks", queue=name, state="active"))[count(row.active)]],
        h.td[count(row.later)],
        h.td[h.a(href=link("/dead-letters", queue=name))[count(row.dead_letters)]],
        h.td(".num")[per_second(row.rates.processed) if row.rates.is_known else "…"],
        h.td(".dim")[row.limits],
        h.td(".end")[cord(place, name, paused=row.paused)],
    ]


def cord(place: "Place", name: str, *, paused: bool) -> "Node":
    """The cord of a queue: while it is pulled, nothing is claimed from the queue."""
    if not place.may(f"queues:manage:{name}"):
        return None
    if paused:
        return act(
            place, "/acts/resume", "▶ Resume", name="queue", value=name, looks="cord pulled",
            says=f"Resume {name}",
        )  # fmt: skip
    return act(
        place, "/acts/pause", "‖ Pause", name="queue", value=name, looks="cord",
        title="Claim nothing from it; what runs goes on", says=f"Pause {name}",
    )  # fmt: skip
