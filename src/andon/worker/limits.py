"""Room: how many runs a worker may still start, in total and per limited task type (R14).

The limit of a type counts all versions of its name; a pattern's limit counts all the names it
serves. What is asked of the store is room per task *name*: for a pattern these are the names it
has served before, so a first task of a new name may come without room and is handed back.
"""

from collections.abc import Iterable

from andon.worker.registry import TaskType

_MOST_NAMES = 1_000


class _Group:
    __slots__ = ("most", "names", "running")

    def __init__(self, most: int, name: str | None) -> None:
        self.most = most
        self.running = 0
        self.names = set[str]() if name is None else {name}


class Limits:
    """Counts the runs of limited types. Costs nothing while no type is limited."""

    def __init__(self, types: Iterable[TaskType], default: int | None = None) -> None:
        """`default` limits every type that sets nothing itself; None leaves them unlimited."""
        self._groups: dict[str, _Group] = {}
        self._default = default
        self.take_in(types)

    def take_in(self, types: Iterable[TaskType]) -> None:
        """Count the runs of these types too, from now on."""
        for kind in types:
            most = kind.max_concurrent or kind.options.get("max_concurrent") or self._default
            if most is None:
                continue
            group = self._groups.get(kind.name)
            if group is None:
                group = _Group(most, None if kind.is_pattern else kind.name)
                self._groups[kind.name] = group
            group.most = min(group.most, most)

    def room(self) -> dict[str, int]:
        """Room per task name; a name that is absent is unlimited."""
        if not self._groups:
            return {}
        rooms: dict[str, int] = {}
        for group in self._groups.values():
            left = max(group.most - group.running, 0)
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
        if group.running >= group.most:
            return False
        group.running += 1
        return True

    def give(self, kind: TaskType) -> bool:
        """Give back the room of a run; True if its type had none left before."""
        group = self._groups.get(kind.name)
        if group is None:
            return False
        if not group.running:  # begun before the type had a limit
            return False
        group.running -= 1
        return group.running == group.most - 1
