"""Rows that are sent as values of a type: by name, in whatever order the type has its fields."""

import random

import pytest
from conformance.kit import opened

from andon.lifecycle.commands import Cancel, Command, Complete, Delete, Fail, Lose, Rerun, Snooze
from andon.model.task import TaskError
from andon.model.words import State
from andon.stores.postgres import composites
from andon.stores.postgres.composites import CHANGE, Composite

NO = TaskError(message="no")
POLICY = {"retry_delay": 60.0, "unique_states": ("pending", "failed")}


@pytest.fixture(params=range(2))
def shuffled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Composite:
    """The type with its fields in another order, in schemas that are made from now on too."""
    names = random.Random(request.param).sample([*CHANGE.fields], len(CHANGE.fields))
    shuffled = Composite({name: CHANGE.fields[name] for name in names})
    monkeypatch.setattr(composites, "CHANGE", shuffled)
    return shuffled


async def test_every_kind_of_change_is_written_when_the_fields_are_shuffled(
    url: str, shuffled: Composite
) -> None:
    assert [*shuffled.fields] != [*CHANGE.fields]
    ends: dict[State, Command] = {
        State.COMPLETED: Complete(result=b"1"),
        State.RETRY: Fail(error=NO),
        State.SCHEDULED: Snooze(delay=60_000),
        State.FAILED: Fail(error=NO, retryable=False),
        State.CANCELLED: Cancel(force=True),
    }
    async with opened(url) as kit:
        await kit.configure(max_concurrent_per_key=1)
        for kept in ({}, {"key": "k"}, {"unique_key": "u"}):
            for state, way in ends.items():
                task = await kit.active(policy=POLICY, **kept)
                assert task.cell is not None
                lost = await kit.try_move(task, Lose(), seen_lease=task.cell.lease_until + 1)
                assert lost.current == task
                ended = await kit.moved(task, way)
                assert ended.state is state
                assert (await kit.stats()).counts[state] == 1
                if state is State.FAILED:
                    ended = await kit.moved(ended, Rerun())
                if ended.state is not State.COMPLETED and ended.state is not State.CANCELLED:
                    await kit.moved(ended, Cancel())
                forgotten = await kit.there(task.id)
                assert await kit.move(forgotten, Delete()) is None


async def test_a_discarded_end_is_written_when_the_fields_are_shuffled(
    url: str, shuffled: Composite
) -> None:
    async with opened(url) as kit:
        policy = {"discard_states": ("completed",), "unique_states": ("pending", "completed")}
        for _ in range(2):
            task = await kit.active(unique_key="u", policy=policy)
            assert await kit.move(task, Complete()) is None
