"""Draws workers: what each runs and can run, and which tasks no worker can run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages.parts import age, chip, meter, queue_link, section, table, task_link
from andon.dashboard.views.fleet import WorkerRow, Workers
from andon.dashboard.views.looks import line_of

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place

_MOST_TYPES = 40
_SIGNS = {"running": ("▶", "good"), "quiet": ("‖", "off"), "stopping": ("◼", "off")}


def content(place: "Place", view: Workers) -> Iterator["Node"]:
    """The whole page."""
    yield h.h1["Workers"]
    yield from fragments(place, view)


def fragments(place: "Place", view: Workers) -> Iterator["Renderable"]:
    """The live fragments of the page."""
    yield h.div("#lacking", hidden=not view.lacking)[
        section(
            "What no worker can run",
            table(
                "lacking-kinds",
                ["type", "queue", "why", "oldest"],
                (
                    h.tr(data_row="")[
                        h.th(scope="row")[
                            h.a(
                                href=place.to(
                                    "/tasks", name=one.name, queue=one.queue, state="pending"
                                )
                            )[h.bdi[line_of(one.said, 80)]]
                        ],
                        h.td[queue_link(place, one.queue)],
                        h.td(".bad")["⚠ ", one.text],
                        h.td[age(one.oldest_at, view.now)],
                    ]
                    for one in view.lacking
                ),
                label="What no worker can run",
            ),
        )
    ]
    yield table(
        "workers",
        ["worker", "state", "slots", "runs now", "claims from", "can run", "started", "seen"],
        (_worker(place, one, view.now) for one in view.rows),
        empty="No worker is alive. Start one with: andon worker APP.",
        label="Workers",
    )


def _worker(place: "Place", one: WorkerRow, now: int) -> "Renderable":
    sign, tone = _SIGNS.get(one.state, ("?", "off"))
    share = one.active / one.concurrency if one.concurrency else 0.0
    return h.tr(data_row="")[
        h.th(scope="row")[
            h.a(".id", href=place.to("/tasks", worker=one.id, state="active"))[
                h.bdi[line_of(one.id, 80)]
            ],
            h.div(".dim")[h.bdi[one.host], f" pid {one.pid}" if one.pid else ""],
        ],
        h.td[
            h.span(f".state.{tone}")[
                h.span(".sign", aria_hidden="true")[sign], " ", line_of(one.state, 20)
            ],
            one.is_late and h.div(".bad")["⚠ not heard of lately"],
        ],
        h.td[
            f"{one.active:,} of {one.concurrency:,}",
            meter(share, f"{one.active} of {one.concurrency} slots"),
        ],
        h.td[
            [
                h.div[
                    task_link(place, run.id),
                    " ",
                    h.span(".dim")[h.bdi[run.name], f" {run.progress} %" if run.progress else ""],
                ]
                for run in one.runs
            ],
            one.active > len(one.runs)
            and len(one.runs) > 0
            and h.div(".dim")[f"and {one.active - len(one.runs):,} more"],
        ],
        h.td[[[queue_link(place, name), " "] for name in one.queues[:20]]],
        h.td[_types(one)],
        h.td(".tight")[age(one.started_at or None, now)],
        h.td(".tight")[age(one.seen_at, now)],
    ]


def _types(one: WorkerRow) -> "Node":
    trusts = one.trusts and h.div(".dim")[f"signed with {', '.join(one.trusts)} only"]
    if one.takes_all:
        return [h.span(".dim")["names no types: is given everything"], trusts]
    if one.types is None:
        return [h.span(".dim")["not known here"], trusts]
    more = len(one.types) - _MOST_TYPES
    return [
        [chip(name) for name in one.types[:_MOST_TYPES]],
        more > 0 and h.span(".dim")[f"and {more:,} more"],
        trusts,
    ]
