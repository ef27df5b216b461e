"""A claim that found nothing may be parked: the next task that fits is handed to it."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from andon.contract.optional import ParksClaims
from andon.contract.outcomes import CreateKind, Verdict
from andon.contract.requests import ClaimRequest
from andon.contract.store import Store
from andon.contract.topics import ready_topic
from andon.lifecycle.commands import Complete
from andon.model.code import Code
from andon.model.task import Task
from andon.model.words import Event, State
from andon.stores.kit.parked_claims import PARKED_MS

from .kit import PATIENCE_S, Kit, StoreFactory, ids


class Stander:
    """A worker whose claims are parked, and what was handed to it."""

    def __init__(self, kit: Kit, store: Store, worker: str) -> None:
        assert isinstance(store, ParksClaims)
        self.kit = kit
        self.store = store
        self.worker = worker
        self.taken: list[Task] = []
        self._some = asyncio.Event()
        self._listener = store.listen([ready_topic("default")])
        self.takes(True)

    def takes(self, does: bool) -> None:
        """Whether it is there to hear of what it is given."""
        assert isinstance(self.store, ParksClaims)
        self.store.on_handoff(self.worker, self._take if does else None)

    def _take(self, tasks: list[Task]) -> None:
        self.taken += tasks
        self._some.set()

    def request(self, **fields: Any) -> ClaimRequest:
        return self.kit.request(limit=5, worker=self.worker, **{"parks": True, **fields})

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
        return self.taken.pop()

    async def begin(self, *queues: str) -> None:
        """Wait until each queue's next task is handed over: the first one of a queue is not, and
        those are not that come before the store hears them."""
        for queue in queues:

            async def once(queue: str = queue) -> bool:
                await self.stand(queues=(queue,))
                task = await self.kit.submit(queue=queue)
                if await self.kit.state(task.id) is State.ACTIVE:
                    run = await self.handed()
                    await self.kit.moved(run, Complete())
                    return True
                (run,) = await self.store.claim(self.request(queues=(queue,), parks=False))
                await self.kit.moved(run, Complete())
                return False

            await self.kit.until(once)


class StillTime(StoreFactory):
    """Stores for which time stands where it is put."""

    now = 1_800_000_000_000

    def __init__(self, url: str, kind: Callable[..., Store]) -> None:
        super().__init__(url, shared=True, durable=True)
        self._kind = kind

    def make(self, **options: int) -> Store:
        assert not options
        return self._kind(self.url, clock=lambda: self.now)


async def nobody_repeats(times: StillTime) -> None:
    """A claim that nobody repeats is parked no more after its time."""
    kit = Kit(times)
    await kit.open()
    try:
        stander = await begin(kit)
        await stander.stand()
        times.now += PARKED_MS + 1
        task = await kit.submit()
        assert await kit.state(task.id) is State.PENDING
    finally:
        await kit.close()


async def begin(kit: Kit, *queues: str, worker: str = "stander") -> Stander:
    store = kit.store
    if not isinstance(store, ParksClaims) or not store.parks_claims:
        pytest.skip("this store parks no claims")
    stander = Stander(kit, store, worker)
    await stander.begin(*(queues or ("default",)))
    return stander


async def other_beside(kit: Kit, worker: str = "other") -> Stander:
    """A worker of another process."""
    other = Stander(kit, await kit.again(), worker)
    await other.begin("default")
    return other


async def test_the_next_task_is_handed_over_as_a_claim_would_give_it(kit: Kit) -> None:
    stander = await begin(kit)
    request = await stander.stand()
    task = await kit.submit()
    run = await stander.handed()
    assert run.id == task.id
    assert run == await kit.there(task.id)
    assert run.state is State.ACTIVE
    assert run.status.run.startswith(f"{request.token}-")
    assert (run.status.runs[-1].number, run.status.runs[-1].worker) == (0, "stander")
    assert await kit.renew(run) is Verdict.OK
    assert (await kit.moved(run, Complete(result=b"1"))).state is State.COMPLETED
    history = await kit.store.history(task.id)
    assert [event.event for event in history.events] == [Event.SUBMIT, Event.CLAIM, Event.COMPLETE]


async def test_a_task_is_handed_over_to_another_process(kit: Kit) -> None:
    await begin(kit)
    other = await other_beside(kit)
    for _ in range(3):
        await other.stand()
        task = await kit.submit()
        run = await other.handed()
        assert run == await kit.there(task.id)
        await kit.moved(run, Complete())


async def test_the_log_tells_of_the_submit_and_then_of_the_claim(kit: Kit) -> None:
    stander = await begin(kit)
    await stander.stand()
    cursor = await kit.store.events_end()
    task = await kit.submit()
    told = (await kit.read_events(cursor)).events
    assert [(one.task, one.event, one.revision) for one in told] == [
        (task.id, Event.SUBMIT, 1),
        (task.id, Event.CLAIM, 2),
    ]


async def test_a_task_handed_over_is_counted_and_found_as_active(kit: Kit) -> None:
    stander = await begin(kit)
    await stander.stand()
    task = await kit.submit()
    stats = await kit.stats()
    assert (stats.counts.get(State.ACTIVE, 0), stats.counts.get(State.PENDING, 0)) == (1, 0)
    assert await kit.find_all(queue="default", states=(State.ACTIVE,)) == [task.id]


async def test_one_task_is_handed_over_and_those_after_it_wait(kit: Kit) -> None:
    stander = await begin(kit)
    await stander.stand()
    with kit.store.listen([ready_topic("default")]) as ready:
        first = await kit.submit()
        assert (await stander.handed()).id == first.id
        assert not await ready.wait(0)  # nobody was woken in vain
        second = await kit.submit()
        assert await ready.wait(PATIENCE_S)
    assert await kit.state(second.id) is State.PENDING


async def test_what_was_handed_over_and_lost_is_found_by_the_claims_token(kit: Kit) -> None:
    stander = await begin(kit)
    request = await stander.stand()
    stander.takes(False)
    task = await kit.submit()
    assert await kit.state(task.id) is State.ACTIVE
    for again in (request, msgspec.structs.replace(request, limit=0, parks=False)):
        assert ids(await stander.store.claim(again)) == [task.id]


async def test_what_comes_with_the_reply_to_a_repeat_is_not_handed_over_as_well(kit: Kit) -> None:
    stander = await begin(kit)
    request = await stander.stand()
    other = await kit.again()
    for stands in (True, False):
        repeat = msgspec.structs.replace(request, parks=stands)
        task = kit.record()
        # The repeat leaves before what is handed over to the claim before it can be heard.
        claims = asyncio.ensure_future(stander.store.claim(repeat))
        await other.create([task])
        found = ids(await claims)
        if not found and await kit.state(task.id) is State.PENDING:
            found = ids(await stander.store.claim(repeat))
        elif not found:
            found = [(await stander.handed()).id]
        assert found == [task.id]
        assert not stander.taken
        request = await stander.stand()


async def test_a_claim_that_is_repeated_without_standing_stands_no_more(kit: Kit) -> None:
    stander = await begin(kit)
    request = await stander.stand()
    nothing = msgspec.structs.replace(request, limit=0, parks=False)
    assert await stander.store.claim(nothing) == []
    task = await kit.submit()
    assert await kit.state(task.id) is State.PENDING


@pytest.mark.parametrize("limit", [{"paused": True}, {"max_concurrent": 1}, {"rate_limit": 5.0}])
async def test_a_queue_that_is_paused_or_limited_hands_nothing_over(
    kit: Kit, limit: dict[str, Any]
) -> None:
    stander = await begin(kit)
    request = await stander.stand()
    await kit.configure(**limit)
    task = await kit.submit()
    assert await kit.state(task.id) is State.PENDING
    nothing = msgspec.structs.replace(request, limit=0, parks=False)
    assert await stander.store.claim(nothing) == []


async def test_a_task_that_the_worker_has_no_code_for_is_not_handed_over(kit: Kit) -> None:
    stander = await begin(kit)
    has = Code.of([("job", 0)])
    request = await stander.stand(code=has)
    others: list[dict[str, Any]] = [{"name": "unheard-of"}, {"version": 2}]
    for fields in others:
        task = await kit.submit(**fields)
        assert await kit.state(task.id) is State.PENDING
        assert not stander.taken
    known = await kit.submit()
    if await kit.state(known.id) is State.ACTIVE:  # or its kind was not known there yet
        assert (await stander.handed()).id == known.id
    else:
        assert ids(await stander.store.claim(request)) == [known.id]


async def test_a_task_of_a_known_kind_is_handed_over_to_whoever_has_code(kit: Kit) -> None:
    stander = await begin(kit)
    has = Code.of([("job", 0), ("other", 2)])
    kinds: list[dict[str, Any]] = [{}, {"name": "other", "version": 2}]
    for fields in kinds:

        async def handed(fields: dict[str, Any] = fields) -> bool:
            request = await stander.stand(code=has)
            task = await kit.submit(**fields)
            given = await kit.state(task.id) is State.ACTIVE
            (run,) = [await stander.handed()] if given else await stander.store.claim(request)
            assert run.id == task.id
            await kit.moved(run, Complete())
            return given

        await kit.until(handed)


async def test_a_standing_claim_with_other_code_is_no_obstacle_to_the_next(kit: Kit) -> None:
    """What one worker may not be handed waits for a claim, and whoever has code for it gets it."""
    stander = await begin(kit)
    await stander.stand(code=Code.of([("theirs", 0)]))
    task = await kit.submit()
    assert await kit.state(task.id) is State.PENDING
    claimed = await kit.claim(worker="has-code", code=Code.of([("job", 0)]))
    assert ids(claimed) == [task.id]
    assert not stander.taken


async def test_a_task_that_anybody_may_run_is_handed_over_whatever_code_there_is(kit: Kit) -> None:
    stander = await begin(kit)

    async def handed() -> bool:
        request = await stander.stand(code=Code.of([("theirs", 0)]))
        task = await kit.submit(policy={"on_unknown": "fail"})
        given = await kit.state(task.id) is State.ACTIVE
        (run,) = [await stander.handed()] if given else await stander.store.claim(request)
        await kit.moved(run, Complete())
        return given

    await kit.until(handed)


async def test_what_waits_goes_first(kit: Kit) -> None:
    stander = await begin(kit, "default", "other")
    request = await stander.stand(queues=("other", "default"))
    waiting = await kit.submit_many(2, queue="other")
    late = await kit.submit(priority=9)
    assert await kit.state(late.id) is State.PENDING
    found = await stander.store.claim(request)
    assert ids(found) == [*ids(waiting), late.id]


async def test_a_task_that_is_not_plain_is_not_handed_over(kit: Kit) -> None:
    stander = await begin(kit)
    await stander.stand()
    later: dict[str, Any] = {"run_at": kit.store.now() + 3_600_000}
    for fields in ({"unique_key": "one"}, later):
        task = await kit.submit(**fields)
        assert await kit.state(task.id) is not State.ACTIVE


async def test_a_queue_has_one_standing_claim_and_the_next_worker_takes_its_place(kit: Kit) -> None:
    one = await begin(kit)
    other = await other_beside(kit)
    await one.stand()
    request = await other.stand()
    first = await kit.submit()
    assert (await one.handed()).id == first.id
    await other.stand(token=request.token)
    second = await kit.submit()
    assert (await other.handed()).id == second.id


async def test_a_repeated_submit_of_a_task_handed_over_is_the_same_task(kit: Kit) -> None:
    stander = await begin(kit)
    await stander.stand()
    task = await kit.submit()
    await stander.handed()
    await stander.stand()
    (again,) = await kit.create(task)
    assert again.kind is CreateKind.EXISTS
    assert not stander.taken
    assert len((await kit.store.history(task.id)).events) == 2


async def test_a_claim_that_is_answered_leaves_those_of_other_workers_standing(kit: Kit) -> None:
    one = await begin(kit, "left", "right", worker="one")
    other = Stander(kit, kit.store, "other")
    await one.stand(queues=("left",))
    await other.stand(queues=("left", "right"))
    task = await kit.submit(queue="right")
    assert (await other.handed()).id == task.id
    task = await kit.submit(queue="left")
    assert (await one.handed()).id == task.id


async def test_a_worker_that_was_given_a_task_of_one_queue_stands_in_all_of_them_again(
    kit: Kit,
) -> None:
    stander = await begin(kit, "left", "right")
    for queue in ("left", "right", "left"):
        await stander.stand(queues=("left", "right"))
        task = await kit.submit(queue=queue)
        run = await stander.handed()
        assert run.id == task.id
        await kit.moved(run, Complete())


async def test_arguments_of_any_size_reach_whoever_stands(kit: Kit) -> None:
    stander = await begin(kit)
    for size in (10, 2_000, 6_000, 100_000):
        request = await stander.stand()
        task = await kit.submit(args=b'"%s"' % (b"x" * size))
        if await kit.state(task.id) is State.PENDING:  # told of as ever: it is too large to be told
            (run,) = await stander.store.claim(request)
        else:
            run = await stander.handed()
        assert run == await kit.there(task.id)
        await kit.moved(run, Complete())
