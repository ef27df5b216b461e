"""Lives to look at: one task driven through real moves, at times that the test chooses."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from andon.lifecycle import commands as c
from andon.lifecycle.admission import admit, admit_invalid
from andon.lifecycle.apply import apply, next_fence, stamped
from andon.lifecycle.faces.fields import Shown
from andon.lifecycle.policies import resolve
from andon.lifecycle.profiles import Profile
from andon.lifecycle.rendering import history_as, move_names, state_name
from andon.model.task import Definition, RunCell, Stamp, Task, TaskError, TaskEvent

MIDNIGHT = 1_705_276_800_000  #: 2024-01-15T00:00:00Z


def at(clock: str) -> int:
    """Milliseconds UTC of a time of day, `10:30:00`, on 2024-01-15."""
    return round(datetime.fromisoformat(f"2024-01-15T{clock}Z").timestamp() * 1000)


class Life:
    """One task under one profile; every step moves its clock on by a second."""

    def __init__(
        self,
        profile: Profile,
        *,
        policy: Mapping[str, Any] | None = None,
        now: int = MIDNIGHT,
        invalid: str = "",
        **fields: Any,
    ) -> None:
        self.profile = profile
        self.now = now
        fields.setdefault("id", "task-1")
        fields.setdefault("name", "crawl")
        definition = Definition(
            policy=resolve(profile.defaults, policy or {}), profile=profile.name, **fields
        )
        if invalid:
            self.task = admit_invalid(definition, now, "", invalid)
        else:
            self.task = admit(definition, now, "")
        self.events: list[TaskEvent] = list(self.task.status.events)

    def claim(self, worker: str = "worker-1", *, now: int | None = None) -> "Life":
        self._tick(now)
        number = self.task.status.runs[-1].number
        fence = next_fence(self.task.status.fence, self.now)
        lease = self.now + round(self.task.policy.lease * 1000)
        stamp = Stamp(f"run-{number}", fence, worker, "", self.now, lease)
        self.task = stamped(self.task, stamp)
        self.events.append(self.task.status.events[-1])
        return self

    def progress(self, percent: int, message: str = "") -> "Life":
        cell = self.task.cell
        assert cell is not None
        new = RunCell(
            run=cell.run,
            lease_until=cell.lease_until,
            heartbeat_at=self.now,
            progress=percent,
            message=message,
        )
        task = self.task
        self.task = Task(definition=task.definition, status=task.status, cell=new)
        return self

    def do(self, command: c.Command, *, now: int | None = None) -> "Life":
        self._tick(now)
        moved = apply(self.task, command, now=self.now, random=lambda: 0.0)
        self.events.append(moved.event)
        assert moved.status is not None, "deleted: look at events"
        result = moved.result if moved.sets_result else self.task.result
        self.task = Task(definition=self.task.definition, status=moved.status, result=result)
        return self

    def fail(
        self, message: str = "no luck", code: str = "ERROR", *, now: int | None = None
    ) -> "Life":
        return self.do(c.Fail(error=TaskError(message=message, code=code)), now=now)

    @property
    def name(self) -> str:
        return state_name(self.profile, self.task)

    @property
    def newest(self) -> list[Shown]:
        return move_names(self.profile, self.events[-1], self.task)

    @property
    def names(self) -> list[str]:
        """The names that the newest move is shown as."""
        return [shown.name for shown in self.newest]

    @property
    def story(self) -> list[str]:
        """All names that the life is shown as, one per entry of its history."""
        entries = history_as(self.profile, self.events, self.task)
        return [e.get("status") or e.get("state") or e["State"] for e in entries]

    def _tick(self, now: int | None) -> None:
        self.now = self.now + 1000 if now is None else now
