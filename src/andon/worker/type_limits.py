"""Room: how many runs a worker may still start, in total and per limited task type
(docs/rulings.md, R14).

The limit of a type counts all versions of its name; a pattern's limit counts all the names it
serves. A claim states room per task *name*: for a pattern these are the names it has served before,
so a first task of a new name may come without room and is handed back.

Types whose handlers run in child processes also share the children: one more limit, for all of them
together. Each of their names is claimed with all that is left of it, so that none waits behind
another; a surplus is handed back.
"""

from collections.abc import Iterable

from andon.worker.registry import TaskType

_MOST_NAMES = 1_000


class _Group:
    __slots__ = ("in_children", "most", "names", "running")

    def __init__(self, name: str | None) -> None:
        self.most: int | None = None
        self.running = 0
        self.in_children = False
        self.names = set[str]() if name is None else {name}


class TypeLimits:
    """Counts the runs of limited types. Costs nothing while no type is limited."""

    def __init__(
        self, types: Iterable[TaskType], default: int | None = None, *, children: int | None = None
    ) -> None:
        """`default` limits every type that sets nothing itself, `children` all types together that
        run in child processes; None leaves them unlimited."""
        self._groups: dict[str, _Group] = {}
        self.has_any = False  #: some type is limited
        self._default = default
        self._children = children
        self._in_children = 0  # runs
        self.take_in(types)

    def take_in(self, types: Iterable[TaskType]) -> None:
        """Count the runs of these types too, from now on."""
        for kind in types:
            most = kind.max_concurrent or kind.options.get("max_concurrent") or self._default
            in_child = self._is_in_child(kind)
            if most is None and not in_child:
                continue
            group = self._groups.get(kind.name)
            if group is None:
                group = _Group(None if kind.is_pattern else kind.name)
                self._groups[kind.name] = group
                self.has_any = True
            group.in_children |= in_child
            if most is not None:
                group.most = most if group.most is None else min(group.most, most)

    def room(self) -> dict[str, int]:
        """Room per task name; a name that is absent is unlimited."""
        if not self._groups:
            return {}
        rooms: dict[str, int] = {}
        for group in self._groups.values():
            left = self._left(group)
            for name in group.names:
                rooms[name] = min(left, rooms.get(name, left))
        return rooms

    def take(self, kind: TaskType, name: str) -> bool:
        """Take room for a run of the task `name`; False if there is none."""
        group = self._groups.get(kind.name)
        if group is None:
            return True
        if len(group.names) >= _MOST_NAMES:  # names come from outside
            group.names.clear()
        group.names.add(name)
        if group.most is not None and group.running >= group.most:
            return False
        if self._is_in_child(kind):
            if self._no_child_is_free():
                return False
            self._in_children += 1
        group.running += 1
        return True

    def give(self, kind: TaskType) -> bool:
        """Give back the room of a run; True if there was none left before for its type."""
        group = self._groups.get(kind.name)
        if group is None:
            return False
        if not group.running:  # it began before the type had a limit
            return False
        was_full = group.most is not None and group.running == group.most
        group.running -= 1
        if self._is_in_child(kind):
            was_full = was_full or self._no_child_is_free()
            self._in_children -= 1
        return was_full

    def _left(self, group: _Group) -> int:
        lefts: list[int] = []
        if group.most is not None:
            lefts.append(group.most - group.running)
        if group.in_children and self._children is not None:
            lefts.append(self._children - self._in_children)
        return max(min(lefts), 0)

    def _is_in_child(self, kind: TaskType) -> bool:
        return self._children is not None and kind.kind == "process"

    def _no_child_is_free(self) -> bool:
        return self._children is not None and self._in_children >= self._children
