"""Who did it: acts by hand carry their actor in the event, and stand in the audit list."""

import asyncio
import logging
import random
from typing import Any

import pytest

from andon.contract.store import Store
from andon.engine.actor import acting_as
from andon.engine.audit import MOST_RECORDS, TOGETHER_MS, Audit
from andon.engine.base import ActionResult
from andon.engine.schedule_requests import ScheduleRequest
from andon.lifecycle.commands import Archive, Complete, Delete, Fail, Rerun, Reschedule, RunNow
from andon.model.errors import StoreUnavailable
from andon.model.recurrence import Recurrence
from andon.model.settings import AUDIT_SETTING
from andon.model.task import TaskError
from andon.model.words import Event

from .conftest import START, Shop

DAY_MS = 86_400_000


async def actors(shop: Shop, task_id: str) -> list[tuple[Event, str]]:
    """Moves by hand, and whose they are."""
    history = await shop.engine.history(task_id)
    in_log = (await shop.engine.events("")).events
    moves = [(event.event, event.actor) for event in history.events]
    assert moves == [(e.event, e.actor) for e in in_log if e.task == task_id]
    return [move for move in moves if move[1]]


async def test_each_act_by_hand_names_its_actor_and_nothing_else_does(shop: Shop) -> None:
    await shop.submit("a", delay=3600)
    with acting_as("ann"):
        await shop.engine.act(["a"], Reschedule(run_at=START + DAY_MS))
    with acting_as("bob"):
        await shop.engine.act(["a"], RunNow())
        await shop.run(Fail(error=TaskError(message="no"), retryable=False))
        await shop.engine.act(["a"], Rerun())
    (task,) = await shop.claim()
    with acting_as("ann"):
        await shop.engine.cancel(["a"])
    await shop.engine.report(task, Complete())
    assert await actors(shop, "a") == [
        (Event.RESCHEDULE, "ann"),
        (Event.RUN_NOW, "bob"),
        (Event.RERUN, "bob"),
        (Event.REQUEST_CANCEL, "ann"),
    ]
    assert (await shop.task("a")).status.events[-2].actor == "ann"


async def test_what_follows_from_an_act_is_nobodys(shop: Shop) -> None:
    await shop.submit("parent", delay=3600)
    await shop.submit("child", dependencies=("parent",))
    with acting_as("ann"):
        await shop.engine.cancel(["parent"])
        await shop.told()
    assert await actors(shop, "parent") == [(Event.CANCEL, "ann")]
    assert await actors(shop, "child") == []


async def test_the_move_that_deletes_a_task_says_by_whom(shop: Shop) -> None:
    await shop.submit("a")
    await shop.run()
    with acting_as("ann"):
        await shop.engine.act(["a"], Delete())
    (deleted,) = [e for e in (await shop.engine.events("")).events if e.event is Event.DELETE]
    assert deleted.actor == "ann"


async def test_an_edit_and_acts_on_schedules_name_their_actor(shop: Shop) -> None:
    await shop.submit("a", delay=3600)
    request = ScheduleRequest(
        name="nightly", recurrence=Recurrence(cron=("0 3 * * *",)), task=shop.submission()
    )
    with acting_as("ann"):
        await shop.engine.edit("a", b'{"x":1}', "b")
        await shop.engine.schedules.put([request], "add")
        await shop.engine.schedules.act(["nightly"], "pause")
    assert await actors(shop, "a") == [(Event.EDIT, "ann")]
    assert await actors(shop, "nightly") == [(Event.PAUSE, "ann")]
    listed = [(one.act, one.subject, one.actor) for one in await shop.engine.acts()]
    assert listed == [
        ("pause-schedule", "nightly", "ann"),
        ("add-schedule", "nightly", "ann"),
        ("edit", "a", "ann"),
    ]


async def test_without_a_name_nothing_is_listed_of_tasks(shop: Shop) -> None:
    await shop.submit("a")
    await shop.engine.cancel(["a"])
    assert await shop.engine.acts() == []
    assert await actors(shop, "a") == []


async def test_one_bad_id_in_a_batch_is_refused_alone(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b")
    with acting_as("ann"):
        acted = await shop.engine.cancel(["a", "no-such-task", "b"])
    assert [one.error is None for one in acted] == [True, False, True]
    (record,) = await shop.engine.acts()
    assert (record.act, record.subject, record.count) == ("cancel", "a", 2)


async def test_acts_alike_within_a_minute_are_one_record(shop: Shop) -> None:
    for number in range(6):
        await shop.submit(f"a{number}", delay=1e6)
    for pause, actor in ((0, "ann"), (30_000, "ann"), (0, "bob"), (0, "ann")):
        shop.clock.ms += pause
        with acting_as(actor):
            await shop.engine.cancel([f"a{number}" for number in range(2)])
            await shop.engine.act([f"a{number}" for number in range(2)], Rerun())
    with acting_as("ann"):
        await shop.engine.act(["a3"], Archive())
        shop.clock.ms += TOGETHER_MS + 1
        await shop.engine.act(["a4", "a5"], Archive())
    found = [one for one in await shop.engine.acts("ann") if one.act == "archive"]
    assert [(one.subject, one.count) for one in found] == [("a4", 2), ("a3", 1)]
    assert {one.actor for one in await shop.engine.acts("bob")} == {"bob"}


async def test_changes_of_what_is_no_task_are_listed_whoever_makes_them(shop: Shop) -> None:
    await shop.engine.configure_queue("q", {"paused": True})
    await shop.engine.configure_queue("q", {"paused": True})
    with acting_as("ann"):
        await shop.engine.configure_queue("q", {"paused": False, "max_concurrent": 3})
        await shop.engine.put_policy("slow", {"max_retries": 2})
        await shop.engine.delete_policy("slow")
        await shop.engine.delete_policy("slow")
        await shop.engine.delete_queue("q")
    found = [(one.act, one.subject, one.actor, one.detail) for one in await shop.engine.acts()]
    assert found == [
        ("delete-queue", "q", "ann", ""),
        ("delete-policy", "slow", "ann", ""),
        ("put-policy", "slow", "ann", '{"set":{"max_retries":2}}'),
        ("configure-queue", "q", "ann", '{"paused":false,"max_concurrent":3}'),
        ("configure-queue", "q", "", '{"paused":true}'),
    ]


async def test_the_list_is_bounded_and_its_oldest_go(store: Store) -> None:
    await store.open()
    try:
        audit = Audit(store)
        for start in range(0, MOST_RECORDS + 20, 40):
            names = [f"q{number}" for number in range(start, start + 40)]
            await asyncio.gather(*(audit.asked("configure-queue", name) for name in names))
        found = await audit.acts(limit=10_000)
        assert len(found) == MOST_RECORDS
        assert found[-1].subject == "q20"
    finally:
        await store.close()


async def test_a_name_and_a_subject_are_made_fit_to_be_kept(shop: Shop) -> None:
    await shop.submit("a")
    with acting_as("an\x1b[31mn\ud800\x00" + "x" * 1000):
        await shop.engine.cancel(["a"])
        await shop.engine.configure_queue("q", {"max_size": 7})
    ((_, actor),) = await actors(shop, "a")
    assert actor.startswith("an\\x1b[31mn")
    assert len(actor) <= 100
    assert {one.actor for one in await shop.engine.acts()} == {actor}


async def test_a_damaged_list_begins_anew(
    shop: Shop, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    assert await store.put_setting(AUDIT_SETTING, b"\xff{", expect=None)
    with caplog.at_level(logging.WARNING), acting_as("ann"):
        await shop.engine.configure_queue("q", {"paused": True})
    assert [one.subject for one in await shop.engine.acts()] == ["q"]
    assert "The audit list is damaged" in caplog.text


async def test_an_act_stands_though_the_list_cannot_be_written(
    shop: Shop, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await shop.submit("a")
    put = store.put_setting

    async def refuse(name: str, value: bytes, *, expect: bytes | None) -> bool:
        if name == AUDIT_SETTING:
            raise StoreUnavailable("away")
        return await put(name, value, expect=expect)

    monkeypatch.setattr(store, "put_setting", refuse)
    with caplog.at_level(logging.WARNING), acting_as("ann"):
        (acted,) = await shop.engine.cancel(["a"])
        assert acted.changed
        with pytest.raises(StoreUnavailable):
            await shop.engine.configure_queue("q", {"paused": True})
    assert await actors(shop, "a") == [(Event.CANCEL, "ann")]
    assert [queue.name for queue in await shop.engine.queues() if queue.paused] == []
    assert "The audit list could not be written: away" in caplog.text


async def test_two_engines_that_write_at_once_lose_no_record(shop: Shop, store: Store) -> None:
    other = Audit(store)
    mine = shop.engine.audit
    rng = random.Random(3)

    async def note(audit: Audit, number: int) -> None:
        await asyncio.sleep(0)
        await audit.asked("configure-queue", f"q{number}")

    await asyncio.gather(*(note(rng.choice((mine, other)), number) for number in range(40)))
    assert {one.subject for one in await mine.acts()} == {f"q{number}" for number in range(40)}


async def test_an_act_that_changed_nothing_is_not_listed(shop: Shop) -> None:
    with acting_as("ann"):
        await shop.engine.audit.done("cancel", [ActionResult("a", None, changed=False)])
    assert await shop.engine.acts() == []


def test_the_actor_belongs_to_the_context(runner: Any) -> None:
    async def two() -> list[str]:
        from andon.engine.actor import ACTOR

        async def one(name: str) -> str:
            with acting_as(name):
                await asyncio.sleep(0)
                return ACTOR.get()

        names = await asyncio.gather(one("ann"), one("bob"))
        return [*names, ACTOR.get()]

    assert runner.run(two()) == ["ann", "bob", ""]
