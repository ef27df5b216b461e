"""What is too large for a message of the server is told, and hinders nobody else."""

import asyncio
from collections.abc import Iterator

import pytest
from conformance.kit import Kit, StoreFactory
from servers.nats import NatsServer

from andon.contract.limits import MAX_PAYLOAD
from andon.contract.outcomes import ChangeKind, CreateKind
from andon.lifecycle.commands import Complete, Fail
from andon.model.task import TaskError
from andon.model.words import State

TRIES = 60
"""More than a record tells of."""

LONG = Fail(error=TaskError(message="m" * 4_096, traceback="t" * 16_384), retryable=True)
"""An error as long as a worker may report it."""

SMALL_MESSAGES = 300_000


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory, runner: asyncio.Runner) -> Iterator[Kit]:
    """On a server that takes smaller messages than it does by default."""
    extra = f"max_payload: {SMALL_MESSAGES}"
    server = NatsServer(tmp_path_factory.mktemp("small"), extra=extra)
    server.start()
    kit = Kit(StoreFactory(server.url("small"), shared=True, durable=True))
    try:
        runner.run(kit.open())
        yield kit
        runner.run(kit.close())
    finally:
        server.stop()


async def test_a_task_that_failed_again_and_again_at_length_goes_on_and_completes(kit: Kit) -> None:
    policy = {"max_retries": TRIES, "retry_delay": None}
    task = await kit.submit("a", args=b'"' + b"a" * (MAX_PAYLOAD - 2) + b'"', policy=policy)
    for _ in range(TRIES):
        [run] = await kit.claim()
        task = await kit.moved(run, LONG)
        assert task.state is State.PENDING
    kept = await kit.there("a")
    assert kept.status.last_error == LONG.error
    assert all(run.error is not None for run in kept.status.runs[:-1])
    [run] = await kit.claim()
    result = b'"' + b"r" * (MAX_PAYLOAD - 2) + b'"'
    task = await kit.moved(run, Complete(result=result))
    assert (task.state, task.result) == (State.COMPLETED, result)
    assert len((await kit.store.history("a")).events) == 2 * TRIES + 3


async def test_a_result_that_finds_no_room_is_refused_and_those_beside_it_are_kept(
    small: Kit,
) -> None:
    await small.submit_many(2, args=b'"' + b"a" * 100_000 + b'"')
    large, other = await small.claim(2)
    changes = [small.change(large, Complete(result=b"r" * 200_000))]
    changes.append(small.change(other, Complete(result=b"1")))
    refused, kept = await small.store.commit(changes)
    assert (refused.kind, kept.kind) == (ChangeKind.TOO_LARGE, ChangeKind.APPLIED)
    assert refused.size == 200_000
    assert 100_000 < refused.limit < 200_000
    await small.moved(large, Complete(result=b"r" * refused.limit))


async def test_a_submission_that_would_leave_no_room_is_refused_and_those_beside_it_are_kept(
    small: Kit,
) -> None:
    tasks = [
        small.record("small"),
        small.record("args", args=b'"' + b"a" * (SMALL_MESSAGES // 2) + b'"'),
        small.record("headers", headers={str(n): "h" * 1_000 for n in range(200)}),
    ]
    kept, *refused = await small.store.create(tasks)
    assert kept.kind is CreateKind.CREATED
    for outcome in refused:
        assert outcome.kind is CreateKind.TOO_LARGE
        assert outcome.size > outcome.limit == SMALL_MESSAGES // 2
    assert [await small.get(name) for name in ("args", "headers")] == [None, None]
