"""A fleet of workers on a store of many partitions, simulated: the same events for the same seed.

Real: the policy by which a worker walks the partitions (`andon.worker.turns`). Modelled: servers,
network and handlers, as `Model` says. A worker goes about it as `andon.worker.claims` does: it
claims for the slots it has, sleeps when it looked everywhere in vain, is woken by a hint or polls.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Protocol

from andon.lifecycle.constants import SLOW_POLL_S


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is assumed. Times in seconds."""

    partitions: int = 64
    workers: int = 1_000
    concurrency: int = 10
    task_s: float = 1.0  #: a handler's mean time, exponentially distributed
    call_s: float = 100e-6  #: a server's time for a claim; each partition has a server of its own
    each_s: float = 20e-6  #: and for each task that the claim gives
    trip_s: float = 1e-3  #: network, there and back
    seconds: float = 10.0  #: how long is simulated


class Policy(Protocol):
    """Which partition a worker asks next: what `Turns` offers."""

    workers: int
    idle: int

    @property
    def partition(self) -> int: ...

    def looks(self, *, polls: bool) -> int: ...

    def filled(self) -> None: ...

    def move_on(self) -> None: ...


class Former:
    """The policy before `Turns`: begin at 0, stay as long as it gives, poll everything."""

    def __init__(self, partitions: int, **_: object) -> None:
        self._partitions = partitions
        self.partition = 0
        self.workers = self.idle = 1

    def looks(self, *, polls: bool) -> int:
        return self._partitions

    def filled(self) -> None:
        pass

    def move_on(self) -> None:
        self.partition = (self.partition + 1) % self._partitions


@dataclass
class Partition:
    """One partition on its server, and what was seen of it."""

    stored: int = 0  #: waiting since the beginning
    arrived: deque[float] = field(default_factory=deque[float])  #: when the others came
    free_at: float = 0.0  #: when its server has done what it was asked so far
    claims: int = 0
    started: int = 0
    asked_at: float = 0.0
    unasked: float = 0.0  #: the longest time that no claim reached it
    waits: list[float] = field(default_factory=list[float])  #: of those that came
    by_second: dict[int, int] = field(default_factory=dict[int, int])  #: tasks started


Work = Generator[float | None, bool]
"""A worker at work: yields how long until its next step, or None to be resumed by an event."""


class Worker:
    """One simulated worker."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.running = 0
        self.full = False
        self.sleeps = 0  #: how often it went to sleep, so that an old alarm is told from a new one


class Fleet:
    """The simulation: events in order of time, then of their making."""

    def __init__(self, model: Model, make: Callable[..., Policy], *, seed: int) -> None:
        self.model = model
        self.rng = random.Random(seed)
        self.now = 0.0
        self.partitions = [Partition() for _ in range(model.partitions)]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._work: dict[Worker, Work] = {}
        self._sleeping: dict[Worker, None] = {}  # the one asleep longest first
        for _ in range(model.workers):
            worker = Worker(make(model.partitions, rng=self.rng, clock=lambda: self.now))
            worker.policy.workers = model.workers
            self._work[worker] = self._working(worker)
            start = self.rng.random() * model.trip_s
            self.at(start, lambda worker=worker: self._begin(worker))

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Do something at a time."""
        self._count += 1
        heapq.heappush(self._events, (when, self._count, act))

    def run(self) -> list[Partition]:
        """Until the model's time is over."""
        end = self.model.seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, act = heapq.heappop(self._events)
            act()
        for partition in self.partitions:
            partition.unasked = max(partition.unasked, end - partition.asked_at)
        return self.partitions

    def arrive(self, number: int, *, hinted: bool = True) -> None:
        """A task comes to a partition. Its hint wakes one sleeper, or is lost."""
        self.partitions[number].arrived.append(self.now)
        if hinted and self._sleeping:
            self._wake(next(iter(self._sleeping)), told=True)

    # --- a worker ---

    def _working(self, worker: Worker) -> Work:
        model, policy, polls = self.model, worker.policy, False
        while True:
            room = model.concurrency - worker.running
            if not room:
                worker.full, polls = True, False
                yield None
                worker.full = False
                continue
            got = 0
            policy.idle = len(self._sleeping) + 1  # known at once, not after a minute
            for _ in range(policy.looks(polls=polls)):
                yield model.trip_s / 2
                partition = self.partitions[policy.partition]
                taken = self._take(partition, room - got)
                yield partition.free_at - self.now + model.trip_s / 2
                self._start(worker, taken)
                got += taken
                if got >= room:
                    policy.filled()
                    polls = False
                    break
                policy.move_on()
            else:
                told = yield self._fall_asleep(worker)
                polls = not told and not got

    def _take(self, partition: Partition, most: int) -> int:
        partition.claims += 1
        partition.unasked = max(partition.unasked, self.now - partition.asked_at)
        partition.asked_at = self.now
        taken = min(most, partition.stored)
        partition.stored -= taken
        came: list[float] = []
        while taken + len(came) < most and partition.arrived:
            came.append(partition.arrived.popleft())
        taken += len(came)
        begun = max(self.now, partition.free_at)
        partition.free_at = begun + self.model.call_s + taken * self.model.each_s
        told = partition.free_at + self.model.trip_s / 2
        partition.waits += [told - at for at in came]
        partition.started += taken
        second = int(self.now)
        partition.by_second[second] = partition.by_second.get(second, 0) + taken
        return taken

    def _start(self, worker: Worker, count: int) -> None:
        worker.running += count
        for _ in range(count):
            length = self.rng.expovariate(1 / self.model.task_s)
            self.at(self.now + length, lambda: self._ended(worker))

    def _ended(self, worker: Worker) -> None:
        worker.running -= 1
        if worker.full:
            self._resume(worker, told=True)

    def _fall_asleep(self, worker: Worker) -> None:
        worker.sleeps += 1
        self._sleeping[worker] = None
        number = worker.sleeps
        length = SLOW_POLL_S * (0.75 + 0.5 * self.rng.random())

        def alarm() -> None:
            if worker in self._sleeping and worker.sleeps == number:
                self._wake(worker, told=False)

        self.at(self.now + length, alarm)

    def _wake(self, worker: Worker, *, told: bool) -> None:
        del self._sleeping[worker]
        self._resume(worker, told=told)

    def _begin(self, worker: Worker) -> None:
        self._step(worker, next(self._work[worker]))

    def _resume(self, worker: Worker, *, told: bool) -> None:
        self._step(worker, self._work[worker].send(told))

    def _step(self, worker: Worker, wait: float | None) -> None:
        if wait is not None:
            self.at(self.now + wait, lambda: self._resume(worker, told=True))
