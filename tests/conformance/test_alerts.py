"""Alert rules on every store: of several who look one does, and what is told becomes one task."""

import asyncio
from random import Random

from andon.contract.queries import Query
from andon.engine.alert_looks import AlertLooks
from andon.engine.local import LocalEngine
from andon.lifecycle.alerts.judging import MOST_SUBJECTS
from andon.lifecycle.commands import Fail
from andon.lifecycle.minutes import MINUTE_MS
from andon.model.alerts import ALERTS_QUEUE
from andon.model.fleet import WorkerInfo
from andon.model.task import TaskError

from .kit import Kit
from .test_minutes import moved_on


async def test_of_several_who_look_one_tells_and_it_tells_once(kit: Kit) -> None:
    engine = LocalEngine(kit.store)
    await engine.resolver.refresh()
    alerts = engine.alerts
    await alerts.put_target("chat", {"how": "chat", "url": "http://127.0.0.1:1/"})
    await alerts.put_rule("letters", {"when": "dead-letters", "above": 0, "targets": ["chat"]})
    await alerts.put_rule("new", {"when": "new-error", "targets": ["chat"]})
    await alerts.put_rule("lost", {"when": "lost-worker"})
    await alerts.put_rule("missed", {"when": "missed-occurrence"})
    await alerts.put_rule("rate", {"when": "error-rate", "above": 0.5})
    await kit.store.put_worker(WorkerInfo(id="w"))
    clock, store = moved_on(kit.store)
    looks = [AlertLooks(store, alerts, engine.rollups, Random(seed)) for seed in range(3)]
    assert await looks[0].look()
    failed = await kit.active(queue="q", name="post")
    await kit.move(failed, Fail(error=TaskError(message="no"), retryable=False))
    clock.ahead += MINUTE_MS
    looked = await asyncio.gather(*(one.look() for one in looks))
    assert sorted(looked) == [False, False, True]
    page = await kit.store.find(Query(queue=ALERTS_QUEUE))
    assert len(page.tasks) == 2
    shown = await alerts.shown()
    assert (shown.owed, {one.name: one.state for one in shown.rules}) == (
        0,
        {
            "letters": "firing",
            "new": "firing",
            "lost": "quiet",
            "missed": "quiet",
            "rate": "quiet",
        },
    )
    clock.ahead += MINUTE_MS
    assert await looks[1].look()
    assert len((await kit.store.find(Query(queue=ALERTS_QUEUE))).tasks) == 2


async def test_how_the_most_rules_stand_about_the_most_subjects_fits_into_a_note(kit: Kit) -> None:
    engine = LocalEngine(kit.store)
    await engine.resolver.refresh()
    document = {"rules": {f"{'r' * 100}{n}": {"when": "oldest-age", "above": 0} for n in range(50)}}
    await engine.alerts.apply(document)
    for number in range(MOST_SUBJECTS + 5):
        await kit.submit(queue=f"{'q' * 100}{number}")
    clock, store = moved_on(kit.store)
    looks = AlertLooks(store, engine.alerts, engine.rollups, Random(1))
    clock.ahead += 2 * MINUTE_MS
    assert await looks.look()
    (rule, *_) = (await engine.alerts.shown()).rules
    assert (len(rule.subjects), rule.more) == (MOST_SUBJECTS, 5)
