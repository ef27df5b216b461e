"""Alerts through the engine, on every store: who looks, what is told, and what goes wrong."""

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest
from servers import on_clock

from andon.contract.notes import PutNote
from andon.contract.store import Store
from andon.engine.actor import acting_as
from andon.engine.alert_looks import AlertLooks
from andon.engine.alerts import STATE_NOTE, Alerts, Delivery
from andon.engine.audit import Audit
from andon.engine.base import Submission
from andon.engine.rollups import Rollups
from andon.engine.schedule_requests import ScheduleRequest
from andon.lifecycle.alerts.telling import is_sealed
from andon.lifecycle.commands import Complete, Fail
from andon.lifecycle.minutes import MINUTE_MS
from andon.model.alerts import ALERTS_QUEUE, LEFT_NOTES
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.model.fleet import WorkerInfo
from andon.model.recurrence import Recurrence
from andon.model.settings import ALERTS_SETTING
from andon.model.task import Task, TaskError

from .conftest import Clock, Shop

SECRET = "a-secret-of-the-hook"
HOOK = {"how": "webhook", "url": "https://ops.example/secret-path", "secret": SECRET}
CHAT = {"how": "chat", "url": "https://chat.example/secret-path"}


@pytest.fixture(autouse=True)
def a_minute_has_begun(clock: Clock) -> None:
    clock.ms = clock.ms // MINUTE_MS * MINUTE_MS + 9_000


async def watch(shop: Shop, *targets: str, **rule: Any) -> None:
    for target in targets or ("ops",):
        await shop.engine.alerts.put_target(target, HOOK)
    wanted = {"when": "oldest-age", "above": "1m", "targets": targets or ("ops",), **rule}
    await shop.engine.alerts.put_rule("old", {k: v for k, v in wanted.items() if v is not None})


async def next_minute(shop: Shop, minutes: int = 1) -> bool:
    shop.clock.ms += minutes * MINUTE_MS
    return await shop.engine.alert_looks.look()


async def handed(shop: Shop) -> list[Delivery]:
    """What was handed over so far and not yet delivered; it is delivered with this."""
    tasks = await shop.claim(limit=50, queues=(ALERTS_QUEUE,))
    for task in tasks:
        await shop.engine.report(task, Complete())
    return [delivery_of(task) for task in tasks]


def delivery_of(task: Task) -> Delivery:
    return msgspec.json.decode(task.definition.args, type=dict[str, Delivery])["delivery"]


def told(deliveries: list[Delivery]) -> list[tuple[str, str, list[str]]]:
    return sorted(
        (one.target, one.notice.happened, [name for name, _ in one.notice.subjects])
        for one in deliveries
    )


async def test_a_rule_that_fires_hands_one_task_to_each_target_and_one_when_it_is_over(
    shop: Shop,
) -> None:
    await watch(shop, "ops", "chat")
    await shop.submit("a")
    assert await next_minute(shop, 2)
    deliveries = await handed(shop)
    assert told(deliveries) == [
        ("chat", "firing", ["default"]),
        ("ops", "firing", ["default"]),
    ]
    await next_minute(shop)
    assert await handed(shop) == []
    await shop.run()
    await next_minute(shop)
    assert told(await handed(shop)) == [
        ("chat", "cleared", ["default"]),
        ("ops", "cleared", ["default"]),
    ]


async def test_of_two_who_look_in_one_minute_one_does(shop: Shop, url: str, clock: Clock) -> None:
    await watch(shop)
    await shop.submit("a")
    clock.ms += 2 * MINUTE_MS
    store = on_clock(url, clock) if not url.startswith("memory") else shop.engine.store
    other = Shop(store, clock)
    if store is not shop.engine.store:
        await other.engine.open()
    looked = await asyncio.gather(shop.engine.alert_looks.look(), other.engine.alert_looks.look())
    again = await other.engine.alert_looks.look()
    assert (sorted(looked), again) == ([False, True], False)
    assert len(await handed(shop)) == 1
    if store is not shop.engine.store:
        await other.engine.close()


async def test_what_a_crash_kept_from_being_handed_over_is_handed_over_by_the_next_look(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watch(shop)
    await shop.submit("a")

    async def dies(*_: Any) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(shop.engine.alerts, "submit", dies)
        with pytest.raises(StoreUnavailable):
            await next_minute(shop, 2)
    assert await handed(shop) == []
    await next_minute(shop)
    assert told(await handed(shop)) == [("ops", "firing", ["default"])]
    await next_minute(shop)
    assert await handed(shop) == []


async def test_what_was_handed_over_before_a_crash_is_not_handed_over_twice(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watch(shop)
    await shop.submit("a")

    async def dies(*_: Any) -> Any:
        raise StoreUnavailable("the process died after the submit")

    submit = shop.engine.alerts.submit

    async def submits_and_dies(*args: Any) -> Any:
        outcomes = await submit(*args)
        patch.setattr(shop.engine.alerts, "state", dies)
        return outcomes

    with monkeypatch.context() as patch:
        patch.setattr(shop.engine.alerts, "submit", submits_and_dies)
        with pytest.raises(StoreUnavailable):
            await next_minute(shop, 2)
    assert (await shop.engine.alerts.shown()).owed == 1
    assert len(await handed(shop)) == 1
    await next_minute(shop)
    assert await handed(shop) == []
    assert (await shop.engine.alerts.shown()).owed == 0


async def test_a_notice_that_the_queue_has_no_room_for_waits_and_its_neighbour_goes(
    shop: Shop,
) -> None:
    await watch(shop, "a", "b")
    await shop.engine.configure_queue(ALERTS_QUEUE, {"max_size": 1})
    await shop.submit("t")
    await next_minute(shop, 2)
    first = await handed(shop)
    assert (len(first), (await shop.engine.alerts.shown()).owed) == (1, 1)
    await next_minute(shop)
    second = await handed(shop)
    assert {one.target for one in first + second} == {"a", "b"}
    assert (await shop.engine.alerts.shown()).owed == 0


async def test_a_notice_that_can_never_be_stored_is_said_and_its_neighbour_goes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await watch(shop, "a", "b")
    await shop.submit("t")
    submit = shop.engine.alerts.submit

    async def spoils_one(book: Any, wanted: Any) -> Any:
        spoilt = msgspec.structs.replace(wanted[0][0], rule="x" * 400_000)
        return await submit(book, [(spoilt, wanted[0][1]), *wanted[1:]])

    monkeypatch.setattr(shop.engine.alerts, "submit", spoils_one)
    await next_minute(shop, 2)
    assert [one.target for one in await handed(shop)] == ["b"]
    assert "Alert old is not told to a" in caplog.text
    assert (await shop.engine.alerts.shown()).owed == 0


async def test_a_target_that_was_removed_is_told_nothing(shop: Shop) -> None:
    await watch(shop)
    await shop.submit("t")
    await shop.engine.alerts.put_rule("old", {"targets": ""}, "edit")
    assert await shop.engine.alerts.remove_target("ops")
    await next_minute(shop, 2)
    assert await handed(shop) == []
    (rule,) = (await shop.engine.alerts.shown()).rules
    assert rule.state == "firing"


async def test_a_new_kind_of_error_among_dead_letters_is_told_once(shop: Shop) -> None:
    await watch(shop, when="new-error", above=None)

    async def fails(message: str) -> None:
        await shop.submit()
        await shop.run(Fail(error=TaskError(message=message, type="Oops"), retryable=False))

    await fails("Order 1 not found")
    await next_minute(shop)
    await fails("Order 2 not found")
    await next_minute(shop)
    assert await handed(shop) == []
    await fails("No room left")
    await next_minute(shop)
    [delivery] = await handed(shop)
    assert delivery.notice.subjects[0][1] == "Oops: No room left (1 task, job)"
    await fails("No room left")
    await next_minute(shop)
    assert await handed(shop) == []


async def test_an_error_rate_comes_from_the_minutes_that_were_rolled_up(shop: Shop) -> None:
    await watch(shop, when="error-rate", above="50%", min_runs=3)
    await shop.engine.rollups.roll_up()
    for number in range(4):
        await shop.submit(f"t{number}")
    for number in range(4):
        oops = Fail(error=TaskError(message="no"), retryable=False)
        await shop.run(oops if number else None)
    shop.clock.ms += MINUTE_MS
    await shop.engine.rollups.roll_up()
    await shop.engine.alert_looks.look()
    [delivery] = await handed(shop)
    assert delivery.notice.subjects == (("default", "75.0% of 4 runs failed within 5m"),)


async def test_an_occurrence_that_nobody_submitted_is_missed(shop: Shop) -> None:
    await watch(shop, when="missed-occurrence", above=None)
    task = Submission(id="x", name="job")
    request = ScheduleRequest(
        name="minutely", recurrence=Recurrence(every=60, catch_up="none"), task=task
    )
    [outcome] = await shop.engine.schedules.put([request], "add")
    assert outcome.error is None
    await shop.later(60)
    await shop.engine.alert_looks.look()
    await shop.later(60)
    await shop.engine.alert_looks.look()
    assert await handed(shop) == []
    await shop.later(10 * 60)  # nobody fired it for so long
    await shop.engine.alert_looks.look()
    [delivery] = await handed(shop)
    assert delivery.notice.subjects[0][0] == "minutely"
    assert "not submitted" in delivery.notice.subjects[0][1]


async def test_a_worker_that_falls_silent_is_lost_and_one_that_leaves_is_not(shop: Shop) -> None:
    await watch(shop, when="lost-worker", above=None)
    for name in ("stays", "leaves", "dies"):
        await shop.engine.put_worker(WorkerInfo(id=name))
    await next_minute(shop, 0)
    await shop.engine.remove_worker("leaves")
    shop.clock.ms += MINUTE_MS
    await shop.engine.put_worker(WorkerInfo(id="stays"))
    shop.clock.ms += 5_000
    await shop.engine.alert_looks.look()
    [delivery] = await handed(shop)
    assert [name for name, _ in delivery.notice.subjects] == ["dies"]
    shop.clock.ms += MINUTE_MS
    await shop.engine.put_worker(WorkerInfo(id="stays"))
    await shop.engine.alert_looks.look()
    assert await handed(shop) == []


async def test_a_worker_that_came_back_under_its_id_and_died_is_lost(shop: Shop) -> None:
    await watch(shop, when="lost-worker", above=None)
    for _ in range(2):
        await shop.engine.put_worker(WorkerInfo(id="w"))
        await next_minute(shop, 0)
        await shop.engine.remove_worker("w")
        await next_minute(shop)
    assert await handed(shop) == []
    await shop.engine.put_worker(WorkerInfo(id="w"))
    shop.clock.ms += 30_000
    await shop.engine.put_worker(WorkerInfo(id="w"))
    shop.clock.ms += 30_000
    await shop.engine.alert_looks.look()
    shop.clock.ms += MINUTE_MS
    await shop.engine.alert_looks.look()
    [delivery] = await handed(shop)
    assert [name for name, _ in delivery.notice.subjects] == ["w"]


async def test_notes_of_workers_that_left_are_forgotten(shop: Shop) -> None:
    await watch(shop, when="lost-worker", above=None)
    for number in range(3):
        shop.clock.ms += MINUTE_MS
        await shop.engine.put_worker(WorkerInfo(id=f"w{number}"))
        await next_minute(shop, 0)
        await shop.engine.remove_worker(f"w{number}")
        await next_minute(shop, 15)
    left = await shop.engine.store.list_notes(LEFT_NOTES, "")
    assert len(left) <= 1


async def test_without_a_rule_that_asks_no_note_is_written_of_a_worker_that_leaves(
    shop: Shop,
) -> None:
    await shop.engine.put_worker(WorkerInfo(id="w"))
    await shop.engine.remove_worker("w")
    assert await shop.engine.store.list_notes(LEFT_NOTES, "") == []


async def test_what_cannot_be_read_leaves_its_rules_as_they_are_and_the_others_go_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watch(shop)
    await shop.engine.alerts.put_rule(
        "rate", {"when": "error-rate", "above": "5%", "targets": "ops"}
    )
    await shop.engine.alerts.put_rule("new", {"when": "new-error", "targets": "ops"})
    await shop.submit("a")

    async def damaged(*_: Any, **__: Any) -> Any:
        raise ValueError("these minutes cannot be read")

    monkeypatch.setattr(shop.engine.rollups, "history", damaged)
    monkeypatch.setattr(shop.engine.store, "workers", damaged, raising=False)
    await next_minute(shop, 2)
    assert [one.notice.rule for one in await handed(shop)] == ["old"]


class Recorded:
    """A store that notes what is asked of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name not in ("now", "url", "partitions"):
            self.asked.append(name)
        return getattr(self._store, name)


async def test_a_look_costs_one_reading_without_rules_and_a_few_with_them(shop: Shop) -> None:
    recorded: Any = Recorded(shop.engine.store)
    alerts = Alerts(recorded, Audit(recorded), shop.engine.submit)
    looks = AlertLooks(recorded, alerts, Rollups(recorded, Random(1)), Random(1))
    assert not await looks.look()
    assert recorded.asked == ["setting"]
    await watch(shop)
    recorded.asked.clear()
    assert await looks.look()
    assert recorded.asked == ["setting", "notes", "stats", "put_notes"]
    recorded.asked.clear()
    assert not await looks.look()  # somebody did in this minute
    assert recorded.asked == ["setting", "notes"]
    await watch(shop, when="new-error", above=None)
    shop.clock.ms += MINUTE_MS
    recorded.asked.clear()
    await looks.look()
    assert recorded.asked == ["setting", "notes", "stats", "find", "put_notes"]
    shop.clock.ms += MINUTE_MS
    recorded.asked.clear()
    await looks.look()  # no dead letter came or went
    assert recorded.asked == ["setting", "notes", "stats", "put_notes"]


async def test_a_preview_says_what_would_be_told_and_changes_nothing(shop: Shop) -> None:
    await watch(shop)
    await shop.submit("a")
    shop.clock.ms += 2 * MINUTE_MS
    preview = await shop.engine.alerts.preview()
    assert [notice.rule for notice in preview.notices] == ["old"]
    assert preview.shown.rules[0].state == "firing"
    assert (await shop.engine.alerts.shown()).rules[0].state == "new"
    assert await handed(shop) == []
    await shop.engine.alert_looks.look()
    assert len(await handed(shop)) == 1


async def test_no_secret_is_shown_listed_or_handed_over(shop: Shop) -> None:
    with acting_as("ann"):
        await watch(shop)
        await shop.engine.alerts.put_target("chat", CHAT)
        task_id = await shop.engine.alerts.test("ops")
    task = await shop.task(task_id)
    shown = await shop.engine.alerts.shown()
    acts = await shop.engine.acts()
    for said in (msgspec.json.encode(one) for one in (shown, acts, task.definition)):
        assert SECRET.encode() not in said
        assert b"secret-path" not in said
    assert shown.targets[1].where == "https://ops.example/…"
    assert shown.targets[1].has_secret
    assert {one.actor for one in acts} == {"ann"}
    delivery = delivery_of(task)
    book = await shop.engine.alerts.book()
    assert is_sealed(book.key, delivery.notice, "ops", delivery.seal)
    assert delivery.notice.happened == "test"


async def test_a_document_becomes_what_there_is_and_keeps_secrets_that_it_leaves_out(
    shop: Shop,
) -> None:
    alerts = shop.engine.alerts
    await watch(shop)
    document = {
        "targets": {"ops": {"how": "webhook", "url": "https://new.example/"}},
        "rules": {"many": {"when": "dead-letters", "above": 5, "targets": ["ops"]}},
    }
    changes = await alerts.apply(document, dry_run=True)
    assert changes == ["change target ops", "add rule many", "remove rule old"]
    assert list((await alerts.book()).rules) == ["old"]
    assert await alerts.apply(document) == changes
    book = await alerts.book()
    assert list(book.rules) == ["many"]
    assert book.targets["ops"].secret == SECRET
    assert await alerts.apply(document) == []
    document["rules"]["bad"] = {"when": "oldest-age"}
    with pytest.raises(ConfigurationError, match="'bad': above is missing"):
        await alerts.apply(document)
    assert await alerts.book() == book


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"rule": {}}, "Alerts have rules and targets, not 'rule'"),
        ({"rules": {"a": 5}}, "rules are tables by name"),
        ({"targets": []}, "targets are tables by name"),
        ({"rules": {"a": {"when": "new-error", "targets": ["no"]}}}, "there is no target 'no'"),
    ],
)
async def test_a_document_that_cannot_be_is_refused_whole(
    shop: Shop, document: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await shop.engine.alerts.apply(document)
    assert (await shop.engine.alerts.shown()).rules == ()


async def test_rules_are_added_edited_and_removed_by_name(shop: Shop) -> None:
    alerts = shop.engine.alerts
    await watch(shop)
    with pytest.raises(ConfigurationError, match="There is an alert rule 'old'"):
        await alerts.put_rule("old", {"when": "new-error"}, "add")
    with pytest.raises(ConfigurationError, match="no alert rule 'other'"):
        await alerts.put_rule("other", {"above": 5}, "edit")
    shown = await alerts.put_rule("old", {"above": "1h", "queue": "mail"}, "edit")
    assert (shown.rule.above, shown.rule.queue, shown.rule.targets) == (3_600, "mail", ("ops",))
    shown = await alerts.put_rule("old", {"queue": ""}, "edit")
    assert shown.rule.queue == ""
    with pytest.raises(ConfigurationError, match="told by the rule 'old'"):
        await alerts.remove_target("ops")
    assert await alerts.remove_rule("old")
    assert not await alerts.remove_rule("old")
    assert await alerts.remove_target("ops")
    assert not await alerts.remove_target("ops")


async def test_changes_by_many_at_once_are_all_kept(shop: Shop) -> None:
    await asyncio.gather(
        *(shop.engine.alerts.put_rule(f"r{n}", {"when": "new-error"}) for n in range(5))
    )
    assert len((await shop.engine.alerts.shown()).rules) == 5


async def test_from_afar_a_command_is_neither_made_nor_changed(shop: Shop) -> None:
    alerts = shop.engine.alerts
    page = {"how": "command", "argv": ["/bin/page"]}
    with pytest.raises(ConfigurationError, match="only the command line beside the store"):
        await alerts.put_target("page", page, from_afar=True)
    await alerts.put_target("page", page)
    with pytest.raises(ConfigurationError, match="only the command line beside the store"):
        await alerts.apply({"targets": {"page": {**page, "argv": ["/bin/rm"]}}}, from_afar=True)
    assert await alerts.apply({"targets": {"page": page}}, from_afar=True) == []


async def test_a_state_that_does_not_decode_begins_anew(shop: Shop) -> None:
    await watch(shop)
    await shop.engine.store.put_notes([PutNote(STATE_NOTE, b"\xc1", None)])
    await shop.submit("a")
    assert await next_minute(shop, 2)
    assert len(await handed(shop)) == 1


async def test_a_setting_that_does_not_decode_is_named(shop: Shop) -> None:
    await shop.engine.store.put_setting(ALERTS_SETTING, b"{", expect=None)
    with pytest.raises(ConfigurationError, match="setting 'alerts' is damaged"):
        await shop.engine.alerts.shown()
    await shop.engine.remove_worker("w")
