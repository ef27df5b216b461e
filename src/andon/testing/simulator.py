"""A fleet in virtual time, with everything that can go wrong drawn from one seed.

The real engine, timekeeper and worker run on several machines over one store in memory. Between
each machine and the store calls are slow, fail before they are made, or are made and their reply is
lost; machines are cut off for a while, or for so long that their leases are lost, and come back as
zombies. At the end the ledger must balance. The same seed takes the same course.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Rerun
from andon.model.errors import AndonError, StoreUnavailable, TaskConflict
from andon.model.task import Task
from andon.model.words import TERMINAL, Event, State
from andon.stores.memory import MemoryStore
from andon.testing.bearing import LEASE, SCHEDULES, Bearing, Borne, insist
from andon.testing.clock import VirtualLoop, run_virtual
from andon.testing.ledger import Ledger, Unbalanced
from andon.testing.worker import VirtualWorker
from andon.worker.calls import Call
from andon.worker.config import WorkerConfig
from andon.worker.context import Context
from andon.worker.control import Snooze, Terminate
from andon.worker.registry import Registry, TaskType

STORM_S = 300.0
CALM_S = 7_200.0
"""Virtual seconds in which things go wrong, and then at most until everything has ended."""


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """How much goes wrong."""

    tasks: int = 60
    machines: int = 3
    unsent: float = 0.03  #: share of calls that fail before they are made
    lost: float = 0.03  #: share of calls that are made and whose reply is lost
    slowest: float = 0.5  #: seconds a call takes at the most
    cuts: int = 8  #: times a machine is cut off
    longest_cut: float = 60.0  #: seconds


@dataclass
class Course:
    """What happened."""

    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    done: set[tuple[str, int, int]] = field(default_factory=set[tuple[str, int, int]])
    """Task, run and fence of each handler that came to its end."""
    borne: Borne = field(default_factory=Borne)  #: what its tasks and schedules bore
    virtual_s: float = 0.0


class Wire:
    """A store as one machine reaches it."""

    def __init__(self, store: MemoryStore, rng: Random, trouble: Trouble) -> None:
        self._store = store
        self._rng = rng
        self._trouble = trouble
        self._whole = asyncio.Event()
        self._whole.set()
        self.calm = False

    def cut(self) -> None:
        """Let nothing through; calls wait."""
        self._whole.clear()

    def mend(self) -> None:
        """Let everything through again, what has waited too."""
        self._whole.set()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if not inspect.iscoroutinefunction(real):
            return real

        async def call(*args: Any, **options: Any) -> Any:
            return await self._through(lambda: real(*args, **options))

        return call

    async def open(self) -> None:
        """The store belongs to the fleet."""

    async def close(self) -> None:
        """The store belongs to the fleet."""

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        """As the store does; cannot wait, so a wire that is cut refuses."""
        if not self._whole.is_set() or self._happens(self._trouble.unsent):
            raise StoreUnavailable("simulated: not sent")
        verdicts = self._store.renew_blocking(renewals)
        if self._happens(self._trouble.lost):
            raise StoreUnavailable("simulated: reply lost")
        return verdicts

    async def _through(self, make: Callable[[], Awaitable[Any]]) -> Any:
        await self._travel()
        if self._happens(self._trouble.unsent):
            raise StoreUnavailable("simulated: not sent")
        answer = await make()
        await self._travel()
        if self._happens(self._trouble.lost):
            raise StoreUnavailable("simulated: reply lost")
        return answer

    async def _travel(self) -> None:
        await self._whole.wait()
        if not self.calm:
            await asyncio.sleep(self._rng.random() ** 4 * self._trouble.slowest)
            await self._whole.wait()

    def _happens(self, share: float) -> bool:
        return not self.calm and self._rng.random() < share


class Machine:
    """One engine, timekeeper and worker behind a wire of their own."""

    def __init__(self, name: str, wire: Wire, registry: Registry, rng: Random) -> None:
        self.wire = wire
        self.engine = LocalEngine(wire, random=rng)  # type: ignore[arg-type]  # by __getattr__
        config = WorkerConfig(
            queues=("default",), concurrency=5, lease=LEASE, shutdown_grace=1.0, app="a:b", id=name
        )
        clock = asyncio.get_running_loop().time
        self.worker = VirtualWorker(self.engine, registry, config, rng=rng, clock=clock)

    async def start(self) -> None:
        """Begin to work, as soon as the store can be reached."""
        await insist(self.engine.open)
        self.engine.timekeeper.start()
        await self.worker.start()

    async def stop(self) -> None:
        """Leave in good order."""
        await self.worker.stop()
        await self.engine.close()


class Simulation:
    """One course of events."""

    def __init__(self, seed: int, trouble: Trouble) -> None:
        self.course = Course(seed)
        self.trouble = trouble
        self._rng = Random(seed)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        self._store = MemoryStore(clock=loop.wall_ms)
        self._machines: list[Machine] = []
        self._bearing = Bearing(
            self._store, lambda: self._rng.choice(self._machines).engine, self.course.ledger
        )
        self.course.borne = self._bearing.borne
        self._registry = self._tasks()
        self._cursor = ""
        self._submitted: set[str] = set()

    async def run(self) -> Course:
        """Run it. Raises `Unbalanced` if the ledger does not balance."""
        await self._store.open()
        for _ in range(self.trouble.machines):
            await self._add_machine()
        async with asyncio.TaskGroup() as storm:
            storm.create_task(self._submit())
            storm.create_task(self._bearing.schedule(STORM_S))
            storm.create_task(self._meddle())
            storm.create_task(self._cut())
        for machine in self._machines:
            machine.wire.calm = True
            machine.wire.mend()
        await self._until_ended()
        for machine in self._machines:
            await machine.stop()
        await self._read()
        await self._balance()
        await self._store.close()
        self.course.virtual_s = self._loop.time()
        return self.course

    async def _add_machine(self) -> None:
        wire = Wire(self._store, self._chance(), self.trouble)
        name = f"machine{len(self._machines)}"
        machine = Machine(name, wire, self._registry, self._chance())
        self._machines.append(machine)
        await machine.start()

    def _chance(self) -> Random:
        return Random(self._rng.getrandbits(64))

    # --- what the fleet does ---

    def _tasks(self) -> Registry:
        rng = self._chance()

        async def step(ctx: Context) -> int:
            await asyncio.sleep(rng.random() ** 3 * LEASE * 3)
            if rng.random() < 0.2:
                self._bearing.bear(ctx)
            elif rng.random() < 0.2:
                await self._bearing.fan_out(ctx, rng.randint(1, 4))
            return await leaf(ctx)

        async def leaf(ctx: Context) -> int:
            await asyncio.sleep(rng.random() ** 3 * LEASE)
            way = rng.random()
            if way < 0.15:
                raise ValueError("simulated: it fails")
            if way < 0.2:
                raise Snooze(rng.random() * 20)
            if way < 0.22:
                raise Terminate("simulated: given up")
            ctx.progress(90)
            self.course.done.add((ctx.task_id, ctx.run, ctx.fence))
            return ctx.fence

        registry = Registry()
        for handler in (step, leaf):
            registry.add(TaskType(name=handler.__name__, codec=Call(handler), handler=handler))
        return registry

    async def _submit(self) -> None:
        """Submit, again and again until each is acknowledged; some wait for earlier ones."""
        rng = self._chance()
        for n in range(self.trouble.tasks):
            self._submitted.add(f"t{n}")
            await asyncio.sleep(rng.random() * STORM_S / self.trouble.tasks * 1.5)
            parents: dict[str, None] = {}
            if n and rng.random() < 0.3:
                parents = {f"t{rng.randrange(n)}": None for _ in range(rng.choice([1, 1, 3]))}
            wish = Submission(
                id=f"t{n}",
                name="step",
                delay=rng.choice([None, None, rng.random() * 30]),
                dependencies=tuple(parents),
                load_dependencies=rng.random() < 0.5,
                requires=rng.choice(["all-completed", "all-resolved"]),
                needs=rng.randint(1, len(parents)) if len(parents) > 1 else None,
                key=rng.choice([None, "k"]),
                options={
                    "max_retries": rng.choice([0, 3, 20]),
                    "retry_delay": rng.choice([None, 1.0]),
                    "lease": LEASE,
                    "timeout": rng.choice([None, 15.0]),
                    "on_lost": rng.choice(["retry", "retry", "stall"]),
                },
            )
            await insist(lambda wish=wish: self._acknowledged(wish))

    async def _acknowledged(self, wish: Submission) -> None:
        [outcome] = await self._rng.choice(self._machines).engine.submit([wish])
        if isinstance(outcome.error, TaskConflict):
            raise Unbalanced(f"{wish.id}: a repeat was taken for another: {outcome}")
        if outcome.error is not None:
            raise outcome.error

    async def _meddle(self) -> None:
        rng = self._chance()
        while self._loop.time() < STORM_S:
            await asyncio.sleep(rng.random() * 10)
            if not self._submitted:
                continue
            one = rng.choice(sorted(self._submitted))
            engine = rng.choice(self._machines).engine
            try:
                if rng.random() < 0.5:
                    await engine.cancel([one], force=rng.random() < 0.3)
                else:
                    await engine.act([one], Rerun())
            except AndonError:
                continue  # refused, or not known whether it was done: either is fair

    async def _cut(self) -> None:
        """Cut machines off; one that is cut off for good is replaced, and returns as a zombie."""
        rng = self._chance()
        for _ in range(self.trouble.cuts):
            await asyncio.sleep(rng.random() * STORM_S / self.trouble.cuts)
            machine = rng.choice(self._machines[-self.trouble.machines :])
            machine.wire.cut()
            seconds = rng.random() * self.trouble.longest_cut
            if rng.random() < 0.3:
                await self._add_machine()
                seconds *= 10
            self._loop.call_later(seconds, machine.wire.mend)

    # --- the books ---

    async def _until_ended(self) -> None:
        end = self._loop.time() + CALM_S
        while True:
            await asyncio.sleep(5)
            await self._read()
            waiting = self.course.ledger.unresolved()
            if not waiting and set(self.course.ledger.tasks) >= self._submitted | {*SCHEDULES}:
                return
            if self._loop.time() > end:
                raise Unbalanced(f"seed {self.course.seed}: still waiting: {waiting}")

    async def _read(self) -> None:
        while True:
            page = await self._store.events(self._cursor, 1_000)
            self._cursor = page.cursor
            self.course.ledger.read(page.events)
            if not page.events:
                return

    async def _balance(self) -> None:
        borne = await self._bearing.check()
        self.course.ledger.balance(self._submitted | borne)
        for task in await self._store.get(sorted(self._submitted)):
            if task is None or task.state not in TERMINAL:
                raise Unbalanced(f"seed {self.course.seed}: {task}")
            self._really_done(task)

    def _really_done(self, task: Task) -> None:
        """What was accepted as completed was done, by that very run."""
        for run in task.status.runs:
            key = (task.id, run.number, run.fence)
            if run.resolved_event is Event.COMPLETE and key not in self.course.done:
                raise Unbalanced(f"seed {self.course.seed}: {key} was accepted, but never done")
        fence = task.status.fence
        if task.state is State.COMPLETED and task.result != msgspec.json.encode(fence):
            raise Unbalanced(f"seed {self.course.seed}: {task.id} has another run's result")


def simulate(seed: int, trouble: Trouble | None = None) -> Course:
    """Run the course of a seed. Raises `Unbalanced` when something happened that must not."""

    async def main() -> Course:
        return await Simulation(seed, trouble or Trouble()).run()

    return run_virtual(main())
