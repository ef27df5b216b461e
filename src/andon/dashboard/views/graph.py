"""Places the nodes of a flow for drawing: each to the right of all that it waits for."""

from collections.abc import Sequence

import msgspec

from andon.dashboard.views.looks import line_of
from andon.lifecycle.flows import FlowNode

WIDTH, HEIGHT = 190, 56
GAP_X, GAP_Y = 56, 18
MOST_NODES = 300
"""How many nodes are drawn; a flow with more is listed."""


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """One node, with the place of its upper left corner."""

    x: int
    y: int
    title: str
    states: str  #: how many in which state, in words
    tone: str  #: `done`, `failed`, `active` or `waits`
    percent: int
    name: str  #: of the task type
    first: str  #: the id of its first task
    count: int


class Arrow(msgspec.Struct, frozen=True):
    """An arrow from one box to another."""

    x1: int
    y1: int
    x2: int
    y2: int


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing."""

    width: int
    height: int
    boxes: list[Box]
    arrows: list[Arrow]
    more: int = 0  #: nodes that are not drawn


def graph_of(nodes: Sequence[FlowNode]) -> Graph:
    """The nodes of a flow, each after those it waits for, as a drawing."""
    drawn = nodes[:MOST_NODES]
    columns: list[int] = []
    for node in drawn:
        columns.append(1 + max((columns[place] for place in node.after), default=-1))
    rows = _rows(drawn, columns)
    boxes = [
        Box(
            x=columns[place] * (WIDTH + GAP_X),
            y=rows[place] * (HEIGHT + GAP_Y),
            title=line_of(node.name, 26) + (f" x {node.count:,}" if node.count > 1 else ""),
            states=", ".join(f"{number:,} {state}" for state, number in node.states.items()),
            tone=_tone(node),
            percent=node.progress,
            name=node.name,
            first=node.ids[0] if node.ids else "",
            count=node.count,
        )
        for place, node in enumerate(drawn)
    ]
    arrows = [
        Arrow(
            boxes[parent].x + WIDTH,
            boxes[parent].y + HEIGHT // 2,
            boxes[place].x,
            boxes[place].y + HEIGHT // 2,
        )
        for place, node in enumerate(drawn)
        for parent in node.after
    ]
    return Graph(
        width=max((box.x for box in boxes), default=0) + WIDTH,
        height=max((box.y for box in boxes), default=0) + HEIGHT,
        boxes=boxes,
        arrows=arrows,
        more=len(nodes) - len(drawn),
    )


def _rows(nodes: Sequence[FlowNode], columns: Sequence[int]) -> list[int]:
    """The row of each node: near the nodes it waits for, so that few arrows cross."""
    taken: dict[int, set[int]] = {}
    rows: list[int] = []
    for place, node in enumerate(nodes):
        used = taken.setdefault(columns[place], set())
        parents = [rows[parent] for parent in node.after]
        wanted = sum(parents) // len(parents) if parents else 0
        row = next(row for row in _around(wanted) if row not in used)
        used.add(row)
        rows.append(row)
    return rows


def _around(wanted: int) -> "Sequence[int]":
    """Rows from the wanted one on, down and up in turn."""
    below = range(wanted, wanted + MOST_NODES + 1)
    above = range(wanted - 1, -1, -1)
    mixed: list[int] = []
    for step, row in enumerate(below):
        mixed.append(row)
        if step < len(above):
            mixed.append(above[step])
    return mixed


def _tone(node: FlowNode) -> str:
    if node.stuck:
        return "failed"
    if set(node.states) == {"completed"}:
        return "done"
    return "active" if "active" in node.states else "waits"
