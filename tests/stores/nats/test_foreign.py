"""Messages that Andon did not write, on subjects of its own: they hold up nobody, and are named."""

import logging

import nats
import pytest
from conformance.kit import Kit, ids

from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Delete
from andon.model.words import State
from andon.stores.nats import NatsStore
from andon.stores.nats.subjects import Subjects, SubqueueName

LINE = SubqueueName("default", "job", "0")


def _subjects(kit: Kit) -> Subjects:
    assert isinstance(kit.store, NatsStore)
    context = kit.store._context
    assert context is not None
    return context.records[0].subjects


async def publish(kit: Kit, subject: str, body: bytes = b"nonsense") -> None:
    """As somebody with another tool does."""
    client = await nats.connect(kit.factory.url.partition("?")[0])
    try:
        await client.jetstream().publish(subject, body)
    finally:
        await client.close()


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("limit", [{}, {"max_concurrent": 100}], ids=["plain", "limited"])
async def test_one_in_a_line_is_set_aside_and_the_others_are_claimed(
    kit: Kit, caplog: pytest.LogCaptureFixture, place: int, limit: dict[str, int]
) -> None:
    await kit.configure(**limit)
    subject = _subjects(kit).pending("foreign", LINE)
    tasks = []
    for number in range(5):
        if number == place:
            await publish(kit, subject)
        tasks.append(await kit.submit())
    assert ids(await kit.claim(10)) == ids(tasks)
    assert await kit.claim(10) == []
    assert await kit.state("foreign") is State.UNKNOWN
    assert any("foreign" in record.getMessage() for record in caplog.records)
    assert (await kit.store.ready_kinds()) == []


async def test_one_that_was_set_aside_is_deleted_like_any_task(kit: Kit) -> None:
    await kit.submit()
    await publish(kit, _subjects(kit).pending("foreign", LINE))
    engine = LocalEngine(kit.store)
    [acted] = await engine.act(["foreign"], Delete())
    assert acted.error is None
    assert await kit.get("foreign") is None
    assert len(await kit.claim(10)) == 1


async def test_one_among_the_timers_that_fired_holds_up_none(
    kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    subjects = _subjects(kit)
    await publish(kit, subjects.due("foreign", 1))
    await publish(kit, subjects.timer(kit.store.now(), "foreign", 1))
    task = await kit.submit(run_at=kit.store.now() + 5)
    assert (await kit.due(task.id)).id == task.id
    told = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(told) == 1, "it is taken away, not met again"


async def test_one_among_the_queues_hides_none_of_them(kit: Kit) -> None:
    subjects = _subjects(kit)
    await publish(kit, subjects.of("q", "foreign"))
    await publish(kit, subjects.of("v", "default", "job", "high"))
    await publish(kit, subjects.of("v", "default"))
    task = await kit.submit(queue="mine")
    other = await kit.again()
    assert [config.name for config in await other.queues()] == ["mine"]
    assert ids(await kit.claim_from(other, 5, queues=("mine",))) == [task.id]
