"""Draws flows: the newest, and one as a graph."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages.parts import act, age, meter, section, state, table, task_link
from andon.dashboard.views.graph import HEIGHT, WIDTH, Arrow, Box, Graph, graph_of
from andon.dashboard.views.looks import line_of

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place
    from andon.engine.flows import FlowSummary
    from andon.lifecycle.flows import FlowDocument

_SIGNS = {"done": "✓", "failed": "✗", "active": "▶", "waits": "○"}


def content(place: "Place", found: "Sequence[FlowSummary]", now: int) -> Iterator["Node"]:
    """The newest flows."""
    yield h.h1["Flows"]
    yield table(
        "flows",
        ["flow", "name", "tasks", "submitted"],
        (
            h.tr(data_row="")[
                h.th(scope="row")[h.a(href=place.named("flows", one.id))[h.bdi[line_of(one.id)]]],
                h.td[h.bdi[line_of(one.name, 80)]],
                h.td(".num")[f"{one.members:,}"],
                h.td[age(one.created_at, now)],
            ]
            for one in found
        ),
        empty="No flow was submitted lately. Make one in code: with app.flow(name) as flow.",
        label="Flows",
    )


def one(place: "Place", flow: "FlowDocument") -> Iterator["Node"]:
    """One flow."""
    yield h.p(".crumbs")[h.a(href=place.to("/flows"))["Flows"]]
    yield from fragments(place, flow)


def fragments(place: "Place", flow: "FlowDocument") -> Iterator["Renderable"]:
    """The live fragments of one flow."""
    progress = flow.progress
    said = f"{progress.percent} %, {progress.ended:,} of {progress.total:,} ended"
    yield h.header("#flow-head")[
        h.div(".heading")[
            h.h1[h.bdi[line_of(flow.name or flow.id)], " ", h.span(".id.dim")[flow.id]],
            h.div(".tools")[
                _acts(place, flow),
                h.a(".button", href=place.to("/tasks", group=flow.id))["Tasks"],
            ],
        ],
        meter(progress.percent / 100, said, "bad" if progress.failed else "good"),
        h.p[
            said,
            progress.failed > 0 and h.span(".bad")[f" · ✗ {progress.failed:,} not completed"],
            not flow.is_whole and h.span(".dim")[" · it has more tasks than are read here"],
        ],
    ]
    yield h.div("#flow-graph.scroll", tabindex="0", role="region", aria_label="Graph of the flow")[
        drawing(place, flow.id, graph_of(flow.nodes))
    ]
    stuck = [failure for node in flow.nodes for failure in node.stuck]
    yield h.div("#flow-stuck", hidden=not stuck)[
        section(
            "Not completed",
            table(
                "stuck",
                ["task", "state", "why"],
                (
                    h.tr(data_row="")[
                        h.th(scope="row")[task_link(place, one.id)],
                        h.td[state(one.state)],
                        h.td(".text.bad")[h.bdi[line_of(one.message or one.reason)]],
                    ]
                    for one in stuck[:100]
                ),
                label="Not completed",
            ),
        )
    ]


def _acts(place: "Place", flow: "FlowDocument") -> "Node":
    progress = flow.progress
    over = progress.ended >= progress.total
    return [
        progress.failed > 0
        and place.may("tasks:change:*")
        and act(
            place, "/acts/flow/rerun-failed", "Run what failed again", name="flow",
            value=flow.id, looks="main",
        ),
        " ",
        not over
        and place.may("tasks:cancel:*")
        and act(
            place, "/acts/flow/cancel", "Cancel", name="flow", value=flow.id, looks="danger",
            says="Cancel all of the flow that has not ended",
        ),
    ]  # fmt: skip


def drawing(place: "Place", flow_id: str, graph: Graph) -> "Renderable":
    """The graph as SVG: boxes that are links, and arrows."""
    return h.div[
        h.svg(
            ".graph",
            viewBox=f"-4 -4 {graph.width + 8} {graph.height + 8}",
            width=str(graph.width + 8),
            height=str(graph.height + 8),
            role="group",
            aria_label=f"{len(graph.boxes)} nodes: "
            + "; ".join(f"{box.title}, {box.states}" for box in graph.boxes[:50]),
        )[
            (_arrow(one) for one in graph.arrows),
            (_box(place, flow_id, box) for box in graph.boxes),
        ],
        graph.more > 0 and h.p(".dim")[f"{graph.more:,} more nodes are not drawn."],
    ]


def _box(place: "Place", flow_id: str, box: Box) -> "Renderable":
    href = (
        place.task(box.first)
        if box.count == 1
        else place.to("/tasks", group=flow_id, name=box.name)
    )
    return h.a(href=href, aria_label=f"{box.title}: {box.states}")[
        h.g(class_=box.tone, transform=f"translate({box.x} {box.y})")[
            h.title[f"{box.title}: {box.states}"],
            h.rect(width=str(WIDTH), height=str(HEIGHT), rx="6"),
            h.text(x="12", y="23")[f"{_SIGNS[box.tone]} {box.title}"],
            h.text(".sub", x="12", y="42")[line_of(box.states, 28)],
        ]
    ]


def _arrow(one: Arrow) -> "Renderable":
    middle = (one.x1 + one.x2) // 2
    return h.path(
        d=f"M{one.x1} {one.y1}C{middle} {one.y1} {middle} {one.y2} {one.x2} {one.y2}"
        f"M{one.x2 - 6} {one.y2 - 4}L{one.x2} {one.y2}L{one.x2 - 6} {one.y2 + 4}"
    )
