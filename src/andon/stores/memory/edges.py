"""Dependencies: edges from parents to the tasks that name them.

An edge is settled once the child was notified of the parent's end, and stays until it is unlinked
or either task is deleted. How many dependencies of a child are satisfied is kept here too, beside
its record, so that a fan-in of ten thousand writes the record once.
"""

from collections.abc import Iterable
from itertools import islice

import msgspec
from msgspec.structs import replace

from andon.contract.edges import Edge, Link
from andon.stores.memory.ordered import Ordered


class _Children(msgspec.Struct):
    edges: dict[str, Edge] = {}
    names: Ordered[str] = msgspec.field(default_factory=Ordered[str])


class Edges:
    """All edges of a store."""

    def __init__(self) -> None:
        self._of: dict[str, _Children] = {}
        self._parents: dict[str, set[str]] = {}
        self._loading: dict[str, set[str]] = {}
        self._satisfied: dict[str, set[str]] = {}
        self._failing: dict[str, set[str]] = {}
        self._named: dict[str, frozenset[str]] = {}  # of blocked children notified of an end
        self._unsettled: dict[str, dict[str, None]] = {}
        self._fanout: dict[str, None] = {}

    def any_of(self, parent: str) -> bool:
        """Whether the parent has edges."""
        return parent in self._of

    def any_unsettled(self, parent: str) -> bool:
        """Whether some child of the parent was not notified of its end."""
        return parent in self._unsettled

    def unsettled(self, parent: str) -> Iterable[str]:
        """Children that were not notified of the parent's end."""
        return self._unsettled.get(parent, ())

    def loading(self, parent: str) -> Iterable[str]:
        """Children that load the parent's result."""
        return self._loading.get(parent, ())

    def add(self, parent: str, link: Link, *, ended: bool) -> None:
        """Record an edge, unless it exists.

        `ended`: the parent has ended, and only the child is to be notified. An edge whose parent
        was rerun since its notification is to be notified again.
        """
        children = self._of.setdefault(parent, _Children())
        there = children.edges.get(link.child)
        if there is not None:
            if link.loads and not there.loads:  # it was released, and waits anew
                there = children.edges[link.child] = replace(there, loads=True)
                self._loading.setdefault(parent, set()).add(link.child)
            if there.settled and not ended:
                children.edges[link.child] = replace(there, settled=False)
                self._unsettled.setdefault(parent, {})[link.child] = None
            return
        children.edges[link.child] = Edge(parent, link.child, link.loads, link.any_end, False)
        children.names.add(link.child)
        self._parents.setdefault(link.child, set()).add(parent)
        if link.loads:
            self._loading.setdefault(parent, set()).add(link.child)
        self._unsettled.setdefault(parent, {})[link.child] = None
        if ended:
            self._fanout[parent] = None

    def restore(self, parent: str, edges: Iterable[Edge], *, ended: bool) -> None:
        """Add the edges of a parent that is copied from another store."""
        for edge in edges:
            self.add(parent, Link(edge.child, (parent,), edge.loads, edge.any_end), ended=ended)
            if edge.settled:
                self.settle(parent, edge.child)

    def settle(self, parent: str, child: str) -> None:
        """Mark an edge as settled, if there is one."""
        children = self._of.get(parent)
        edge = None if children is None else children.edges.get(child)
        if children is not None and edge is not None and not edge.settled:
            children.edges[child] = replace(edge, settled=True)
            self._told(parent, child)

    def release_edges(self, parent: str, child: str) -> None:
        """Mark an edge, if there is one, as no longer keeping its parent from being deleted."""
        self.settle(parent, child)
        children = self._of.get(parent)
        edge = None if children is None else children.edges.get(child)
        if children is not None and edge is not None and edge.loads:
            children.edges[child] = replace(edge, loads=False)
            _discard(self._loading, parent, child)

    def satisfy(self, child: str, parent: str) -> None:
        """Count a dependency of a blocked child as satisfied, once."""
        self._satisfied.setdefault(child, set()).add(parent)
        if child in self._failing:
            _discard(self._failing, child, parent)

    def failing(self, child: str, parent: str | None) -> int:
        """How many dependencies fail a blocked child, this one among them."""
        if parent is not None:
            self._failing.setdefault(child, set()).add(parent)
        return len(self._failing.get(child, ()))

    def names(self, child: str, dependencies: tuple[str, ...], parent: str) -> bool:
        """Whether a blocked child with these dependencies names the parent. Asked once for each of
        them, so they are not looked through each time."""
        named = self._named.get(child)
        if named is None:
            named = self._named[child] = frozenset(dependencies)
        return parent in named

    def satisfied(self, child: str) -> set[str]:
        """The satisfied dependencies of a blocked child."""
        return self._satisfied.get(child, set())

    def unblocked(self, child: str) -> None:
        """Remove the counts of a child that waits no longer."""
        self._satisfied.pop(child, None)
        self._failing.pop(child, None)
        self._named.pop(child, None)

    def remove(self, parent: str, child: str) -> None:
        """Remove an edge, if there is one."""
        children = self._of.get(parent)
        edge = None if children is None else children.edges.pop(child, None)
        if children is None or edge is None:
            return
        children.names.remove(child)
        if not children.edges:
            del self._of[parent]
        _discard(self._parents, child, parent)
        if edge.loads:
            _discard(self._loading, parent, child)
        if not edge.settled:
            self._told(parent, child)

    def remove_task(self, task_id: str) -> list[str]:
        """Remove all edges of a deleted task, of either side. Returns the parents it had."""
        self.unblocked(task_id)
        parents = sorted(self._parents.get(task_id, ()))
        for parent in parents:
            self.remove(parent, task_id)
        if task_id in self._of:
            for child in list(self._of[task_id].edges):
                self.remove(task_id, child)
        return parents

    def ended(self, parent: str) -> None:
        """The parent has ended: its children are to be notified."""
        if self.any_unsettled(parent):
            self._fanout[parent] = None

    def revived(self, parent: str) -> None:
        """The parent was rerun: its children wait on."""
        self._fanout.pop(parent, None)

    def take_unsettled(self, limit: int) -> list[str]:
        """Ended parents with children to be notified; each goes to the end of the list."""
        taken = list(islice(self._fanout, limit))
        for parent in taken:
            self._fanout[parent] = self._fanout.pop(parent)
        return taken

    def page(self, parent: str, after: str, limit: int) -> list[Edge]:
        """Edges of a parent, ordered by child."""
        children = self._of.get(parent)
        if children is None:
            return []
        names = islice(children.names.after(after or None), limit)
        return [children.edges[name] for name in names]

    def _told(self, parent: str, child: str) -> None:
        del self._unsettled[parent][child]
        if not self._unsettled[parent]:
            del self._unsettled[parent]
            self._fanout.pop(parent, None)


def _discard(sets: dict[str, set[str]], name: str, value: str) -> None:
    sets[name].discard(value)
    if not sets[name]:
        del sets[name]
