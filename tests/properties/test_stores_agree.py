"""The pure model and a store, side by side, for each store that can be run in virtual time.

Hypothesis draws what is done; both get the same, and after each step nobody can tell them
apart. A failure prints the steps that lead to it, shrunk.
"""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import virtual_stores
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from servers import Servers, on_clock

from andon.contract.edges import Link, Settlement
from andon.contract.outcomes import ChangeKind
from andon.contract.requests import Change, ClaimRequest
from andon.contract.store import Store
from andon.lifecycle.admission import admit, admit_schedule
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Command, Evict
from andon.lifecycle.firing import begun
from andon.lifecycle.moves import TARGETS
from andon.lifecycle.schedules import is_schedule, record_definition
from andon.lifecycle.timers import DEBT_MS, VERIFY_FIRST_MS, on_timer, rearm
from andon.model.errors import InvalidTransition
from andon.model.fleet import QueueConfig
from andon.model.task import Definition, Task
from andon.model.words import State

from .courses import (
    acts,
    acts_on_schedules,
    fields,
    plain_policies,
    policies,
    reports,
    rest,
    schedules,
)
from .worlds import MODEL, Copies, Worlds, change_of

EXAMPLES, STEPS = (500, 80) if os.environ.get("ANDON_HYPOTHESIS") == "thorough" else (20, 40)

PARK_LATE = frozenset({"redis"})
"""Stores that keep to a lowered limit per key when they claim, and park what it shuts out then; the
model parks it at once. Not to be told apart as long as limits are lowered on an empty queue."""

IDS = [f"t{n}" for n in range(8)]
QUEUES = ["a", "b"]
ids = st.sampled_from(IDS)
number = st.integers(0, 10**6)


class Stores(RuleBasedStateMachine):
    """What engines, workers and people may do to a store, in any order."""

    def __init__(
        self, make: Callable[[Callable[[], int]], dict[str, Store]], *, parks_late: bool
    ) -> None:
        super().__init__()
        self.make = make
        self.parks_late = parks_late

    @initialize()
    def open(self) -> None:
        self.worlds = Worlds(self.make)
        self.writes = 0
        self.tokens: list[str] = []
        self.runs: list[Copies] = []
        self.changes: list[dict[str, Change]] = []

    def teardown(self) -> None:
        if hasattr(self, "worlds"):
            try:
                self.claim_everything()
            finally:
                self.worlds.close()

    # --- submitting ---

    @rule(data=st.data(), count=st.integers(1, 3))
    def submit(self, data: st.DataObject, count: int) -> None:
        chosen = data.draw(st.lists(ids, min_size=count, max_size=count))
        tasks = [self.draw_task(data, task_id) for task_id in chosen]
        self.worlds.create(tasks)

    def draw_task(self, data: st.DataObject, task_id: str) -> Task:
        now = self.worlds.now
        parents = data.draw(st.lists(ids, max_size=3, unique=True)) if data.draw(flag) else []
        others = tuple(parent for parent in parents if parent != task_id)
        definition = Definition(
            id=task_id,
            name=data.draw(st.sampled_from(["x", "y"])),
            queue=data.draw(st.sampled_from(QUEUES)),
            policy=data.draw(plain_policies | policies),
            dependencies=others,
            needs=data.draw(st.sampled_from([None, *range(1, len(others) + 1)])),
            load_dependencies=data.draw(st.booleans()),
            requires=data.draw(st.sampled_from(["all-completed", "all-resolved"])),
            unique_key=data.draw(st.sampled_from([None, None, "u", "v"])),
            key=data.draw(st.sampled_from([None, "k", "l"])),
            digest=data.draw(st.sampled_from(["same", "same", "other"])),
            **data.draw(fields(now)),
        )
        return admit(definition, now, self.write_id())

    # --- running ---

    @rule(data=st.data(), limit=st.integers(1, 4))
    def claim(self, data: st.DataObject, limit: int) -> None:
        again = data.draw(st.sampled_from([*self.tokens[-2:], ""]))
        token = again or self.write_id()
        if not again:
            self.tokens.append(token)
        request = ClaimRequest(
            worker=data.draw(st.sampled_from(["w1", "w2"])),
            token=token,
            queues=data.draw(st.permutations(QUEUES).map(tuple)),
            limit=limit,
            lease_ms=data.draw(st.sampled_from([1_000, 30_000])),
            room=data.draw(st.sampled_from([{}, {}, {"x": 1}, {"x": 0, "y": 2}])),
        )
        self.runs += self.worlds.claim(request)

    @precondition(lambda self: self.runs)
    @rule(n=number, beat=st.booleans(), progress=st.none() | st.integers(0, 100))
    def renew(self, n: int, beat: bool, progress: int | None) -> None:
        message = None if progress is None else f"at {progress}"
        self.worlds.renew(
            self.runs[-1 - n % len(self.runs)],
            lease_ms=30_000,
            heartbeat=beat,
            progress=progress,
            message=message,
        )

    @precondition(lambda self: self.runs)
    @rule(n=number, command=reports())
    def report_as_claimed(self, n: int, command: Command) -> None:
        """By a worker that knows no more than what it claimed; perhaps much too late."""
        self.move(self.runs[-1 - n % len(self.runs)], command)

    @rule(task_id=ids, command=reports())
    def report(self, task_id: str, command: Command) -> None:
        copies = self.worlds.copies(task_id)
        if copies is not None:
            self.move(copies, command)

    # --- control ---

    @rule(data=st.data(), task_id=ids)
    def make_schedule(self, data: st.DataObject, task_id: str) -> None:
        """A record that never runs, beside the tasks and under their ids."""
        wanted = data.draw(schedules())
        begun_now = begun(task_id, wanted, self.worlds.now)
        definition = record_definition(task_id, begun_now)
        write_id = self.write_id()
        record = admit_schedule(definition, begun_now, self.worlds.now, write_id)
        self.worlds.create([record])

    @rule(data=st.data(), task_id=ids)
    def act_on_schedule(self, data: st.DataObject, task_id: str) -> None:
        copies = self.worlds.copies(task_id)
        if copies is not None and is_schedule(copies[MODEL]):
            self.move(copies, data.draw(acts_on_schedules()))

    @rule(data=st.data(), task_id=ids)
    def act(self, data: st.DataObject, task_id: str) -> None:
        copies = self.worlds.copies(task_id)
        if copies is not None:
            command = data.draw(acts(self.worlds.now) | rest().filter(_not_evict))
            self.move(copies, command, force=data.draw(st.booleans()))

    @precondition(lambda self: self.changes)
    @rule(n=number)
    def repeat_a_write(self, n: int) -> None:
        """A reply was lost: the very same change again."""
        self.worlds.commit_again(self.changes[-1 - n % min(len(self.changes), 5)])

    @rule(data=st.data(), queue=st.sampled_from(QUEUES))
    def configure(self, data: st.DataObject, queue: str) -> None:
        few = st.none() | st.integers(1, 3)
        per_key = data.draw(few)
        if self.parks_late and self.worlds.tightens(queue, per_key):
            return
        stale = QueueConfig(name=queue, weight=9)
        self.worlds.put_queue(
            QueueConfig(
                name=queue,
                paused=data.draw(st.sampled_from([False, False, True])),
                max_concurrent=data.draw(few),
                max_concurrent_per_key=per_key,
                max_size=data.draw(st.none() | st.integers(1, 4)),
            ),
            expect=data.draw(st.sampled_from([None, None, None, stale])),
        )

    # --- time ---

    @rule(ms=st.sampled_from([1, 500, DEBT_MS, VERIFY_FIRST_MS, 30_000, 100_000, 700_000]))
    def advance(self, ms: int) -> None:
        self.worlds.advance(ms)

    @rule()
    def fire_timers(self) -> None:
        self.worlds.fire(self.fired, rearm)

    def fired(self, task: Task) -> Change | None:
        command = on_timer(task, self.worlds.now)
        if command is None:
            return None
        seen = None if task.cell is None else task.cell.lease_until
        write_id = f"timer-{task.id}-{task.status.revision}"
        moved = apply(task, command, now=self.worlds.now, random=lambda: 0.5, write_id=write_id)
        return change_of(task, moved, seen_lease=seen)

    # --- dependencies ---

    @rule(task_id=ids)
    def link(self, task_id: str) -> None:
        """Link and tell, as the engine does."""
        copies = self.worlds.copies(task_id)
        if copies is None:
            return
        d = copies[MODEL].definition
        any_end = d.requires == "all-resolved"
        if not d.dependencies:
            return
        for ended in self.worlds.link(Link(d.id, d.dependencies, d.load_dependencies, any_end)):
            satisfied = ended.state is State.COMPLETED or (any_end and ended.state is not None)
            self.worlds.settle(Settlement(d.id, ended.parent, satisfied))

    @rule(parent=ids, satisfied=st.booleans())
    def tell(self, parent: str, satisfied: bool) -> None:
        """Fan the end of a parent out to its edges."""
        for tied, child in list(self.worlds.model.edges):
            if tied == parent:
                self.worlds.settle(Settlement(child, parent, satisfied))

    @rule(parent=ids, child=ids)
    def release_edges(self, parent: str, child: str) -> None:
        self.worlds.release_edges(parent, child)

    @rule(parent=ids, child=ids)
    def unlink(self, parent: str, child: str) -> None:
        self.worlds.unlink(parent, child)

    # --- what must hold ---

    @invariant()
    def nobody_can_tell_them_apart(self) -> None:
        if hasattr(self, "worlds"):
            self.worlds.compare()

    def move(self, copies: Copies, command: Command, **guards: Any) -> None:
        status = copies[MODEL].status
        asked = status.state is State.ACTIVE and status.cancel_requested_at is not None
        known = (command.event, status.state, asked) in TARGETS
        write_id = self.write_id()
        try:
            changes = {
                name: change_of(
                    task,
                    apply(
                        task,
                        command,
                        now=self.worlds.now,
                        random=lambda: 0.25,
                        write_id=write_id,
                    ),
                    **guards,
                )
                for name, task in copies.items()
            }
        except InvalidTransition:
            return
        assert known, (command, status.state)
        changed = self.worlds.commit_again(changes)
        if changed.kind is ChangeKind.APPLIED:
            self.changes.append(changes)

    def claim_everything(self) -> None:
        """At the end: every queue is opened, and what is left comes in the same order."""
        for queue in QUEUES:
            self.worlds.put_queue(QueueConfig(name=queue))
        request = ClaimRequest(
            worker="last", token="last", queues=tuple(QUEUES), limit=100, lease_ms=1_000
        )
        self.worlds.claim(request)
        self.worlds.compare()
        self.worlds.advance(10**7)
        self.worlds.fire(self.fired, rearm)
        self.worlds.compare()

    def write_id(self) -> str:
        self.writes += 1
        return f"write{self.writes}"


flag = st.sampled_from([False, False, True])


def _not_evict(command: Command) -> bool:
    return not isinstance(command, Evict)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("store_kind", virtual_stores(metafunc.config))


@pytest.mark.timeout(300)
def test_nobody_can_tell_a_store_from_the_model(
    store_kind: str, servers: Servers, tmp_path: Path
) -> None:
    numbers = itertools.count()

    def make(clock: Callable[[], int]) -> dict[str, Store]:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        url = servers.fresh_url(store_kind, folder)
        # What a power cut may take is of no interest here, and twice as fast.
        url += "?synchronous=normal" if store_kind == "sqlite" else ""
        return {store_kind: on_clock(url, clock)}

    run_state_machine_as_test(
        cast(
            "Any", lambda: Stores(make, parks_late=store_kind in PARK_LATE)
        ),  # calling it is all that is done with it
        settings=settings(
            settings(), max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None
        ),
    )
