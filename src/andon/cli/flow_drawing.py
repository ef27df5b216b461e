"""Draws flows: as a tree for people, as Mermaid and Graphviz for pages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from andon.cli.output import STYLES, Word
from andon.dashboard.views.tree import Branch, tree_of
from andon.model.cleaning import clean_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from andon.lifecycle.flows import FlowDocument, FlowNode

_BAR = 30
_MOST_FAILURES = 3
_SHAPES = {"failed": "#f4b6b6", "active": "#f6e3a1", "completed": "#bfe3bf"}


def lines(flow: "FlowDocument") -> Iterator[list[Word]]:
    """The flow as lines of a tree, each of words: its head, then its nodes, each below the last of
    those that it waits for."""
    yield list(_head(flow))
    for branch in tree_of(flow.nodes):
        yield [Word(branch.before, "dim"), *_node(branch)]
        for failure in branch.node.stuck[:_MOST_FAILURES]:
            said = clean_line(failure.message[:400])[:200] or failure.reason
            yield [
                Word(f"{branch.below}   ", "dim"),
                Word(f"{failure.id} {failure.state}", STYLES.get(failure.state, "")),
                Word(f": {said}" if said else ""),
            ]


def _head(flow: "FlowDocument") -> Iterator[Word]:
    progress = flow.progress
    yield Word(flow.id, "bold")
    filled = _BAR * progress.percent // 100
    yield Word(f"  {'━' * filled}", "red" if progress.failed else "green")
    yield Word("━" * (_BAR - filled), "dim")
    yield Word(f" {progress.percent} %  {progress.ended:,} of {progress.total:,}")
    if progress.failed:
        yield Word(f", {progress.failed:,} not completed", "red")
    if not flow.is_whole:
        yield Word(" (it has more tasks than are read)", "dim")


def _node(branch: Branch) -> Iterator[Word]:
    node = branch.node
    yield Word(clean_line(node.name), "bold")
    if node.count > 1:
        yield Word(f" x {node.count:,}")
    for state, count in node.states.items():
        yield Word(
            f"  {state}" if node.count == 1 else f"  {count:,} {state}", STYLES.get(state, "")
        )
    if "active" in node.states:
        yield Word(f"  {node.progress} %")
    if node.needs is not None:
        yield Word(f"  {_needed(node.needs)}", "dim")
    if branch.others:
        named = ", ".join(map(clean_line, branch.others))
        yield Word(f"  (also after {named})", "dim")


def drawn(flow: "FlowDocument") -> "RenderableType":
    """The tree for a terminal."""
    from rich.text import Text

    whole = Text()
    for number, words in enumerate(lines(flow)):
        if number:
            whole.append("\n")
        for word in words:
            whole.append(word.text, style=word.style)
    return whole


def mermaid(flow: "FlowDocument") -> Iterator[str]:
    """The flow as a Mermaid flowchart."""
    yield "flowchart TD"
    for place, node in enumerate(flow.nodes):
        yield f'    n{place}["{_escaped(_label(node, "<br>"))}"]:::{_colour(node)}'
    for place, node in enumerate(flow.nodes):
        for parent in node.after:
            yield f"    n{parent} --> n{place}"
    for name, colour in _SHAPES.items():
        yield f"    classDef {name} fill:{colour}"
    yield "    classDef waiting fill:#e8e8e8"


def graphviz(flow: "FlowDocument") -> Iterator[str]:
    """The flow as a Graphviz digraph."""
    yield "digraph flow {"
    yield "    node [shape=box, style=filled];"
    for place, node in enumerate(flow.nodes):
        colour = _SHAPES.get(_colour(node), "#e8e8e8")
        label = _label(node, "\\n").replace('"', '\\"')
        yield f'    n{place} [label="{label}", fillcolor="{colour}"];'
    for place, node in enumerate(flow.nodes):
        for parent in node.after:
            yield f"    n{parent} -> n{place};"
    yield "}"


def _label(node: "FlowNode", between: str) -> str:
    """Names of tasks have no letter that either language reads as its own."""
    many = f" x {node.count:,}" if node.count > 1 else ""
    states = ", ".join(f"{count:,} {state}" for state, count in node.states.items())
    needed = "" if node.needs is None else f"{between}{_needed(node.needs)}"
    return f"{node.name}{many}{between}{states}{needed}"


def _needed(needs: tuple[int, int]) -> str:
    some, of = needs
    return f"{some:,} of {of:,} needed"


def _escaped(label: str) -> str:
    return label.replace('"', "#quot;")


def _colour(node: "FlowNode") -> str:
    if node.stuck:
        return "failed"
    if set(node.states) == {"completed"}:
        return "completed"
    return "active" if "active" in node.states else "waiting"
