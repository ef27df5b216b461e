"""Arranges the nodes of a flow as a tree: each below the last of those that it waits for. Pure."""

from collections.abc import Iterator, Sequence

import msgspec

from andon.lifecycle.flows import FlowNode

_DEEPEST = 12
"""How many levels of a tree are indented; deeper nodes stand in one column."""


class Branch(msgspec.Struct, frozen=True):
    """A node with the lines that lead to it."""

    node: FlowNode
    before: str  #: the lines before it
    below: str  #: the lines before what belongs to it and stands below it
    others: tuple[str, ...]  #: names of the others that it waits for


def tree_of(nodes: Sequence[FlowNode]) -> Iterator[Branch]:
    """The nodes in the order in which a tree shows them."""
    under: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        under.setdefault(max(node.after, default=-1), []).append(place)
    roots = under.get(-1, [])
    waiting = [(place, "", place == roots[-1]) for place in reversed(roots)]
    while waiting:
        place, indent, is_last = waiting.pop()
        node = nodes[place]
        inner = indent + ("   " if is_last else "│  ")
        yield Branch(
            node,
            f"{indent}{'└─' if is_last else '├─'} ",
            inner,
            tuple(nodes[other].name for other in node.after[:-1]),
        )
        deeper = inner if len(inner) <= 3 * _DEEPEST else indent
        below = under.get(place, [])
        waiting += [(one, deeper, one == below[-1]) for one in reversed(below)]
