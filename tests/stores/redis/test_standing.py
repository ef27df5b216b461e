"""A claim that found nothing may stand: the next task it would have got is handed over to it."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from conformance.kit import PATIENCE_S, Kit, StoreFactory, ids
from servers.redis import RedisServer, until

from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete
from andon.model.fleet import QueueConfig
from andon.model.task import Task
from andon.model.words import Event, State
from andon.stores.base import ClaimRequest, Store, Verdict, ready_topic
from andon.stores.redis import network
from andon.stores.redis.standing import STANDS_MS
from andon.stores.redis.store import RedisStore

from .conftest import OpenKit
from .test_plain import dump


class Stander:
    """A worker whose claims stand, and what was handed over to it."""

    def __init__(self, kit: Kit, store: RedisStore, worker: str = "stander") -> None:
        self.kit = kit
        self.store = store
        self.worker = worker
        self.taken: list[Task] = []
        self._some = asyncio.Event()
        store.hand_over_to(worker, self._take)

    def _take(self, tasks: list[Task]) -> None:
        self.taken += tasks
        self._some.set()

    def request(self, **fields: Any) -> ClaimRequest:
        return self.kit.request(limit=5, worker=self.worker, **{"stands": True, **fields})

    async def stand(self, **fields: Any) -> ClaimRequest:
        """A claim that finds nothing, and stands from now on."""
        request = self.request(**fields)
        assert await self.store.claim(request) == []
        return request

    async def handed(self) -> Task:
        """What is handed over next."""
        async with asyncio.timeout(PATIENCE_S):
            await self._some.wait()
        self._some.clear()
        return self.taken[-1]


Stand = Callable[..., Stander]


async def known(kit: Kit, *queues: str) -> None:
    """Let the queues be known and empty: the first task of one is never plain."""
    for queue in queues or ("default",):
        task = await kit.active(queue=queue)
        await kit.moved(task, Complete())


async def begin(kit: Kit, worker: str = "stander") -> Stander:
    await known(kit)
    assert isinstance(kit.store, RedisStore)
    return Stander(kit, kit.store, worker)


async def test_the_next_task_is_handed_over_as_a_claim_would_give_it(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("handed"))
    stander = await begin(kit)
    request = await stander.stand()
    task = await kit.submit()
    run = await stander.handed()
    assert run.id == task.id
    assert run == await kit.there(task.id)
    assert (run.state, run.status.run) == (State.ACTIVE, f"{request.token}-1")
    assert (run.status.runs[-1].number, run.status.runs[-1].worker) == (0, "stander")
    assert await kit.renew(run) is Verdict.OK
    assert (await kit.moved(run, Complete(result=b"1"))).state is State.COMPLETED
    history = await kit.store.history(task.id)
    assert [event.event for event in history.events] == [Event.SUBMIT, Event.CLAIM, Event.COMPLETE]


async def test_the_log_tells_of_the_submit_and_then_of_the_claim(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("log"))
    stander = await begin(kit)
    await stander.stand()
    cursor = await kit.store.events_end()
    task = await kit.submit()
    told = (await kit.read_events(cursor)).events
    assert [(one.task, one.event, one.revision) for one in told] == [
        (task.id, Event.SUBMIT, 1),
        (task.id, Event.CLAIM, 2),
    ]


NOW = 1_800_000_000_000


class StillTime(StoreFactory):
    """Stores for which time stands where it is put."""

    now = NOW

    def make(self, **options: int) -> Store:
        assert not options
        return RedisStore(self.url, clock=lambda: self.now)


async def test_a_task_handed_over_leaves_what_a_task_created_and_claimed_leaves(
    shared: RedisServer,
) -> None:
    found: list[dict[str, Any]] = []
    for namespace in ("handed-over", "claimed"):
        kit = Kit(StillTime(shared.url(namespace), shared=True, durable=True))
        await kit.open()
        try:
            stander = await begin(kit)
            for policy in ({}, {"timeout": 9.0}):
                request = stander.request()
                if namespace == "handed-over":
                    assert await kit.store.claim(request) == []
                await kit.submit(policy=policy)
                if namespace == "handed-over":
                    await stander.handed()
                else:
                    assert len(await kit.store.claim(request)) == 1
        finally:
            await kit.close()
        found.append(dump(shared, namespace))
    handed, claimed = found
    assert "state:default|active" in handed
    assert handed == claimed


async def test_one_task_is_handed_over_and_those_after_it_wait(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("one"))
    stander = await begin(kit)
    await stander.stand()
    with kit.store.listen([ready_topic("default")]) as ready:
        first = await kit.submit()
        assert (await stander.handed()).id == first.id
        assert not await ready.wait(0)  # nobody was woken in vain
        second = await kit.submit()
        assert await ready.wait(PATIENCE_S)
    assert await kit.state(second.id) is State.PENDING


async def test_what_was_handed_over_and_lost_is_found_by_the_claims_token(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("lost"))
    stander = await begin(kit)
    request = await stander.stand()
    stander.store.hand_over_to("stander", None)
    task = await kit.submit()
    assert await kit.state(task.id) is State.ACTIVE
    for again in (request, msgspec.structs.replace(request, limit=0, stands=False)):
        assert ids(await stander.store.claim(again)) == [task.id]


async def test_what_comes_with_the_reply_to_a_repeat_is_not_handed_over_as_well(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("repeated-stand"))
    stander = await begin(kit)
    request = await stander.stand()
    other = await kit.again()
    for stands in (True, False):
        repeat = msgspec.structs.replace(request, stands=stands)
        task = kit.record()
        # The repeat leaves before what is handed over to the claim before it can be heard.
        claims = asyncio.ensure_future(stander.store.claim(repeat))
        await other.create([task])
        found = ids(await claims)
        if not found:
            found = [(await stander.handed()).id] if stands else ids(await kit.claim())
        assert found == [task.id]
        assert len(stander.taken) <= 1
        stander.taken.clear()
        request = await stander.stand()


async def test_a_claim_that_is_repeated_without_standing_stands_no_more(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("withdrawn"))
    stander = await begin(kit)
    request = await stander.stand()
    nothing = msgspec.structs.replace(request, limit=0, stands=False)
    assert await stander.store.claim(nothing) == []
    task = await kit.submit()
    assert await kit.state(task.id) is State.PENDING


@pytest.mark.parametrize("limit", [{"paused": True}, {"max_concurrent": 1}, {"rate_limit": 5.0}])
async def test_a_queue_that_is_paused_or_limited_hands_nothing_over(
    shared: RedisServer, open_kit: OpenKit, limit: dict[str, Any]
) -> None:
    kit = await open_kit(shared.url(f"limited-{next(iter(limit)).replace('_', '-')}"))
    stander = await begin(kit)
    request = await stander.stand()
    await kit.store.put_queue(QueueConfig(name="default", **limit))
    task = await kit.submit()
    assert await kit.state(task.id) is State.PENDING
    nothing = msgspec.structs.replace(request, limit=0, stands=False)
    assert await stander.store.claim(nothing) == []


async def test_what_waits_goes_first(shared: RedisServer, open_kit: OpenKit) -> None:
    kit = await open_kit(shared.url("first"))
    await known(kit, "default", "other")
    assert isinstance(kit.store, RedisStore)
    stander = Stander(kit, kit.store)
    request = await stander.stand(queues=("other", "default"))
    waiting = await kit.submit_many(2, queue="other")
    late = await kit.submit(priority=9)
    assert await kit.state(late.id) is State.PENDING
    found = await stander.store.claim(request)
    assert ids(found) == [*ids(waiting), late.id]


async def test_a_task_that_is_not_plain_is_not_handed_over(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("not-plain"))
    stander = await begin(kit)
    await stander.stand()
    task = await kit.submit(unique_key="one")
    assert await kit.state(task.id) is State.PENDING


async def test_a_worker_whose_process_is_gone_gets_nothing(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("gone"))
    await known(kit)
    other = await kit.again()
    assert isinstance(other, RedisStore)
    await Stander(kit, other).stand()
    await other.close()
    until(lambda: not shared.ask("PUBSUB", "CHANNELS", "gone:hints:handed-*"), "still subscribed")
    task = await kit.submit()
    assert await kit.state(task.id) is State.PENDING


async def test_a_claim_that_nobody_repeats_falls(shared: RedisServer) -> None:
    times = StillTime(shared.url("falls"), shared=True, durable=True)
    kit = Kit(times)
    await kit.open()
    try:
        stander = await begin(kit)
        await stander.stand()
        times.now += STANDS_MS + 1
        task = await kit.submit()
        assert await kit.state(task.id) is State.PENDING
    finally:
        await kit.close()


async def test_a_queue_has_one_standing_claim_and_the_next_worker_takes_its_place(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("places"))
    one = await begin(kit, "one")
    other_store = await kit.again()
    assert isinstance(other_store, RedisStore)
    other = Stander(kit, other_store, "other")
    await one.stand()
    request = await other.stand()
    first = await kit.submit()
    assert (await one.handed()).id == first.id
    await other.stand(token=request.token)
    second = await kit.submit()
    assert (await other.handed()).id == second.id


async def test_a_repeated_submit_of_a_task_handed_over_is_the_same_task(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("submitted-twice"))
    stander = await begin(kit)
    await stander.stand()
    task = await kit.submit()
    await stander.handed()
    await stander.stand()
    (again,) = await kit.create(task)
    assert again.kind.value == "exists"
    assert len(stander.taken) == 1


async def test_claims_stand_only_where_one_server_holds_everything(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("apart") + "&partitions=2")
    assert isinstance(kit.store, RedisStore)
    assert not kit.store.hands_over
    assert not LocalEngine(kit.store).hands_over
    alone = await open_kit(shared.url("alone"))
    assert LocalEngine(alone.store).hands_over


async def test_a_standing_claim_survives_a_reply_that_is_lost(
    shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = await open_kit(shared.url("reply-lost"))
    stander = await begin(kit)
    monkeypatch.setattr(network, "FIRST_WAIT_S", 0.001)
    request = stander.request()
    claims = asyncio.ensure_future(stander.store.claim(request))
    await asyncio.sleep(0)
    shared.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert await claims == []
    task = await kit.submit()
    assert (await stander.handed()).id == task.id


async def test_a_claim_that_is_answered_leaves_those_of_other_workers_standing(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("others"))
    await known(kit, "left", "right")
    assert isinstance(kit.store, RedisStore)
    one, other = Stander(kit, kit.store, "one"), Stander(kit, kit.store, "other")
    await one.stand(queues=("left",))
    await other.stand(queues=("left", "right"))
    task = await kit.submit(queue="right")
    assert (await other.handed()).id == task.id
    task = await kit.submit(queue="left")
    assert (await one.handed()).id == task.id
