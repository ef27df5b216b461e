"""Random lives of one task through the pure core: what holds after every step of every one."""

import math
from copy import copy

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from andon.lifecycle.admission import admit
from andon.lifecycle.apply import Moved, apply, next_fence, stamped
from andon.lifecycle.births import owes
from andon.lifecycle.commands import Command
from andon.lifecycle.delays import retry_delay
from andon.lifecycle.indexes import entry_of
from andon.lifecycle.moves import TARGETS, Move, fields_set
from andon.lifecycle.timers import next_timer, on_timer, rearm
from andon.model.errors import InvalidTransition
from andon.model.policy import Backoff, Policy
from andon.model.task import Definition, RunCell, Stamp, Status, Task
from andon.model.words import TERMINAL, Event, State

from .courses import ERROR, START, commands, fields, plain_policies, policies

ALWAYS = {"revision", "reason", "events"}
encode = msgspec.msgpack.Encoder().encode


class Life:
    """One task, moved by draws, checked after every move."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.now = START
        self.claims = 0
        definition = Definition(
            id="t",
            name="job",
            policy=data.draw(plain_policies | policies),
            dependencies=data.draw(st.sampled_from([(), (), ("p",)])),
            unique_key=data.draw(st.sampled_from([None, "k"])),
            **data.draw(fields(START)),
        )
        self.task = admit(definition, START, "submit")
        self.sound()

    def step(self) -> bool:
        """One draw; False when the record is gone."""
        way = self.data.draw(st.sampled_from(["claim", "command", "timer", "renew", "time"]))
        if way == "time":
            self.now += self.data.draw(st.sampled_from([0, 1, 1_000, 31_000, 10**9]))
        elif way == "claim":
            if self.task.state is State.PENDING:
                self.claim()
        elif way == "renew":
            self.renew()
        elif way == "timer":
            return self.fire()
        else:
            return self.move(self.data.draw(commands(self.now)))
        return True

    def claim(self) -> None:
        before = self.task
        self.claims += 1
        fence = next_fence(before.status.fence, self.now)
        run = f"run{self.claims}"
        self.task = stamped(before, Stamp(run, fence, "w", "t", self.now, self.now + 30_000))
        assert self.task.status.fence > before.status.fence
        self.changed(before.status, Move(Event.CLAIM, State.PENDING, State.ACTIVE))
        self.sound()

    def renew(self) -> None:
        cell = self.task.cell
        if cell is None:
            return
        renewed = copy(cell)
        renewed.lease_until = max(cell.lease_until, self.now + 30_000)
        renewed.heartbeat_at = self.data.draw(st.sampled_from([cell.heartbeat_at, self.now]))
        renewed.progress = self.data.draw(st.integers(0, 100))
        self.task = Task(definition=self.task.definition, status=self.task.status, cell=renewed)

    def fire(self) -> bool:
        """What a timekeeper does when the timer has come."""
        timer = next_timer(self.task)
        if timer is None:
            assert on_timer(self.task, self.now) is None
            return True
        self.now = max(self.now, timer)
        command = on_timer(self.task, self.now)
        if command is None:
            again = rearm(self.task, self.now)
            assert again is not None
            assert again > self.now, "a timer that means nothing must be set to later"
            return True
        assert self.task.state is not State.UNKNOWN
        return self.move(command, must=True)

    def move(self, command: Command, *, must: bool = False) -> bool:
        before, status = self.task, copy(self.task.status)
        asked = status.state is State.ACTIVE and status.cancel_requested_at is not None
        targets = TARGETS.get((command.event, status.state, asked))
        try:
            moved = apply(before, command, now=self.now, random=self.random, write_id="w")
        except InvalidTransition:
            assert not must, f"the timer's own move was refused: {command}"
            self.unchanged(before, status)
            return True
        assert targets is not None
        assert moved.event.target in targets
        assert not owes(status) or command.event is Event.DELIVER, "it owes, and has moved on"
        self.unchanged(before, status)
        return self.take(before, moved)

    def take(self, before: Task, moved: Moved) -> bool:
        event = moved.event
        assert event.revision == before.status.revision + 1
        assert event.at == self.now
        assert event.source is before.state
        if moved.status is None:
            assert before.state in TERMINAL
            return False
        kept = moved.status.state is State.ACTIVE
        self.task = Task(
            definition=before.definition,
            status=moved.status,
            cell=before.cell if kept else None,
            result=moved.result if moved.sets_result else before.result,
        )
        assert moved.status.state is event.target
        assert (moved.discard is not None) <= (moved.status.state in TERMINAL)
        assert moved.discard is None or not owes(moved.status)
        self.changed(before.status, Move(event.event, event.source, event.target))
        self.sound()
        return True

    def random(self) -> float:
        return self.data.draw(st.sampled_from([0.0, 0.5, math.nextafter(1.0, 0.0)]))

    # --- what must hold ---

    def unchanged(self, before: Task, status: Status) -> None:
        assert before.status == status, "the record given was changed in place"

    def changed(self, old: Status, move: Move) -> None:
        new, before = asdict(self.task.status), asdict(old)
        differ = {name for name in new if new[name] != before[name]}
        allowed = fields_set(move) | ALWAYS | {"state"}
        assert differ <= allowed, f"{move} changed {differ - allowed}"

    def sound(self) -> None:
        """What holds of every record, whatever led to it."""
        task, status = self.task, self.task.status
        active, state = status.state is State.ACTIVE, status.state
        assert active == bool(status.run) == bool(status.worker) == (task.cell is not None)
        assert (status.finished_at is not None) == (state in TERMINAL)
        assert (status.run_at is None) or state is not State.PENDING
        assert status.tries <= self.claims
        assert status.revision == status.events[-1].revision
        numbers = [run.number for run in status.runs]
        assert numbers == list(range(len(numbers)))
        assert all(run.resolved_at is not None for run in status.runs[:-1])
        if status.runs:
            waits_or_runs = state in (State.PENDING, State.ACTIVE)
            assert (status.runs[-1].resolved_at is None) == waits_or_runs
        assert 0 <= status.progress <= 100
        if state is State.RETRY:
            assert status.run_at is not None
            assert status.run_at >= (status.runs[-1].resolved_at or self.now)
        self.timed()
        self.stored()

    def timed(self) -> None:
        task, timer = self.task, next_timer(self.task)
        command = on_timer(task, self.now)
        if command is not None:
            assert timer is not None
            assert timer <= self.now, "something is due, and the timer is later"
        elif timer is not None and task.state is not State.BLOCKED:
            assert timer > self.now, "nothing is due, and the timer has passed"
        entry = entry_of(task)
        assert (entry.ready is not None) == (task.state is State.PENDING)
        if entry.ready is not None:
            assert entry.ready.dead_at == timer

    def stored(self) -> None:
        """Every part survives being written and read."""
        task = self.task
        assert msgspec.msgpack.decode(encode(task.definition), type=Definition) == task.definition
        assert msgspec.msgpack.decode(encode(task.status), type=Status) == task.status
        if task.cell is not None:
            assert msgspec.msgpack.decode(encode(task.cell), type=RunCell) == task.cell
        status = msgspec.json.decode(msgspec.json.encode(task.status), type=Status)
        assert status == task.status


@given(st.data())
def test_every_life_of_a_task_keeps_to_the_table(data: st.DataObject) -> None:
    life = Life(data)
    for _ in range(data.draw(st.integers(1, 25))):
        if not life.step():
            return


@given(policies, st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_no_delay_is_negative_or_above_its_clamp(policy: Policy, retry: int, u: float) -> None:
    delay = retry_delay(policy, retry, lambda: u)
    if delay is None:
        assert policy.retry_delay is None
        assert policy.backoff not in (Backoff.POLYNOMIAL, Backoff.STEPS)
        return
    assert 0 <= delay <= round(policy.max_retry_delay * 1000)


@given(st.floats(0, 1.7e308), st.sampled_from(list(Backoff)), st.integers(1, 10**9))
def test_no_delay_overflows(base: float, backoff: Backoff, retry: int) -> None:
    policy = Policy(retry_delay=base, backoff=backoff, max_retry_delay=1e6)
    delay = retry_delay(policy, retry, lambda: 0.999)
    assert delay is not None
    assert 0 <= delay <= 10**9


@given(st.lists(st.integers(START, START + 10_000), min_size=2, max_size=20))
def test_fences_only_grow_even_when_time_goes_back(times: list[int]) -> None:
    fence = 0
    for now in times:
        after = next_fence(fence, now)
        assert after > fence
        fence = after


def test_an_error_survives_being_written() -> None:
    again = msgspec.msgpack.decode(encode(ERROR), type=type(ERROR))
    assert again == ERROR
