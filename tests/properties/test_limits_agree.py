"""Rate limits and unique keys: each store, in whatever language it counts, and the pure rules."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import virtual_stores
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import Servers, on_clock

from andon.contract.outcomes import CreateKind
from andon.contract.requests import ClaimRequest
from andon.lifecycle.admission import admit
from andon.lifecycle.token_bucket import claims_allowed, tokens_at
from andon.lifecycle.unique import keeps_from_others, key_freed_by_claim
from andon.model.fleet import QueueConfig
from andon.model.policy import Policy
from andon.model.task import Definition, Task
from andon.model.words import State

from .courses import START

if TYPE_CHECKING:
    from andon.contract.store import Store

LEASE_MS = 3_600_000
MANY = 60
NEARLY = 1e-6
"""How far from a whole token the languages may round apart."""

several = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("store_kind", virtual_stores(metafunc.config))


class World:
    """A store on a clock that is moved by hand; each example has queues and keys of its own."""

    def __init__(self, url: str) -> None:
        self.now = START
        self._numbers = itertools.count()
        self._runner = asyncio.Runner()
        self.store: Store = on_clock(url, lambda: self.now)
        self._runner.run(self.store.open())

    def fresh(self, word: str) -> str:
        return f"{word}{next(self._numbers)}"

    def configure(self, config: QueueConfig) -> None:
        put = self.store.put_queue(config, expect=QueueConfig(name=config.name))
        assert self._runner.run(put)

    def task(self, queue: str, unique_key: str | None = None, policy: Policy | None = None) -> Task:
        definition = Definition(
            id=self.fresh("task"),
            name="job",
            queue=queue,
            policy=policy or Policy(),
            digest="digest",
            unique_key=unique_key,
        )
        return admit(definition, self.now, self.fresh("write"))

    def create(self, *tasks: Task) -> list[CreateKind]:
        return [created.kind for created in self._runner.run(self.store.create(tasks))]

    def claim(self, queue: str, limit: int) -> list[Task]:
        request = ClaimRequest(
            worker="w", token=self.fresh("token"), queues=(queue,), limit=limit, lease_ms=LEASE_MS
        )
        return self._runner.run(self.store.claim(request))

    def close(self) -> None:
        self._runner.run(self.store.close())
        self._runner.close()


@pytest.fixture
def world(store_kind: str, servers: Servers, tmp_path: Path) -> Iterator[World]:
    world = World(servers.fresh_url(store_kind, tmp_path))
    yield world
    world.close()


@several
@given(
    rate=st.floats(0.05, 500),
    burst=st.none() | st.integers(1, 20),
    steps=st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 12)), min_size=1, max_size=8),
)
def test_a_rate_lets_through_what_the_bucket_holds(
    world: World, rate: float, burst: int | None, steps: list[tuple[int, int]]
) -> None:
    config = QueueConfig(name=world.fresh("queue"), rate_limit=rate, rate_burst=burst)
    world.configure(config)
    world.create(*(world.task(config.name) for _ in range(MANY)))
    bucket, left = None, MANY
    for passes, wanted in steps:
        world.now += passes
        tokens = tokens_at(config, bucket, world.now)
        expected = min(claims_allowed(tokens), wanted, left)
        got = len(world.claim(config.name, wanted))
        if abs(tokens - round(tokens)) > NEARLY:
            assert got == expected
        assert abs(got - expected) <= 1
        left -= got
        bucket = (tokens - got, world.now)


@several
@given(
    period=st.none() | st.integers(1, 5_000),
    while_active=st.booleans(),
    claimed=st.booleans(),
    passes=st.integers(0, 6_000),
)
def test_a_unique_key_is_free_when_it_lapses_and_not_before(
    world: World, period: int | None, while_active: bool, claimed: bool, passes: int
) -> None:
    states = ("pending", "active") if while_active else ("pending",)
    policy = Policy(unique_period=None if period is None else period / 1000, unique_states=states)
    queue, key = world.fresh("queue"), world.fresh("key")
    holder = world.task(queue, key, policy)
    assert world.create(holder) == [CreateKind.CREATED]
    until = None if period is None else world.now + period
    state: State | None = State.PENDING
    if claimed:
        assert [task.id for task in world.claim(queue, 1)] == [holder.id]
        state = None if key_freed_by_claim(holder) else State.ACTIVE
    world.now += passes
    kept = keeps_from_others(state, until, world.now)
    expected = CreateKind.KEY_HELD if kept else CreateKind.CREATED
    assert world.create(world.task(queue, key, policy)) == [expected]
