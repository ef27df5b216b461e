"""The batcher: batches form under load, nobody waits at rest, nothing handed over is lost."""

import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from andon.engine.batching import Batcher
from andon.model.errors import StoreUnavailable


class Sink:
    """Takes batches, one at a time, when let."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fail = False
        self.away = False

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.gate.wait()
        if self.away:
            raise StoreUnavailable("away")
        if self.fail:
            raise OSError("away")
        return [item * 10 for item in items]


async def _alone() -> None:
    sink = Sink()
    batcher = Batcher(sink, size=100)
    assert await batcher.put(1) == 10
    assert sink.batches == [[1]]


def test_one_item_goes_at_once() -> None:
    asyncio.run(_alone())


async def _under_load() -> None:
    sink = Sink()
    batcher = Batcher(sink, size=4)
    outcomes = await asyncio.gather(*(batcher.put(i) for i in range(10)))
    assert outcomes == [i * 10 for i in range(10)]
    assert [len(batch) for batch in sink.batches] == [4, 4, 2]


def test_what_comes_together_goes_together_in_order() -> None:
    asyncio.run(_under_load())


async def _in_two_turns(count: int, in_flight: int) -> list[int]:
    sink = Sink()
    batcher = Batcher(sink, size=100, in_flight=in_flight)

    async def a_turn_later() -> None:
        await asyncio.sleep(0)
        await batcher.put(1)

    now = [batcher.put(0) for _ in range(count)]
    await asyncio.gather(*now, *(a_turn_later() for _ in range(count)))
    return [len(batch) for batch in sink.batches]


@pytest.mark.parametrize(
    ("count", "in_flight", "sizes"), [(16, 1, [32]), (16, 2, [16, 16]), (4, 1, [4, 4])]
)
def test_many_that_no_other_flush_can_follow_wait_for_those_of_the_next_turn(
    count: int, in_flight: int, sizes: list[int]
) -> None:
    assert asyncio.run(_in_two_turns(count, in_flight)) == sizes


class Ear:
    """Hears of one item; fails at it if told to."""

    def __init__(self, heard: list[object], *, fails: bool = False) -> None:
        self._heard = heard
        self._fails = fails

    def done(self) -> bool:
        return False

    def set_result(self, result: int, /) -> None:
        self._hear(result)

    def set_exception(self, exception: BaseException, /) -> None:
        self._hear(type(exception))

    def _hear(self, what: object) -> None:
        self._heard.append(what)
        if self._fails:
            raise RuntimeError("a bug")


async def _told(*, away: bool) -> list[object]:
    sink, heard = Sink(), list[object]()
    sink.away = away
    batcher = Batcher(sink, size=4)
    for i in range(6):
        batcher.hand(i, Ear(heard, fails=i in {0, 5}))
    assert not heard
    await batcher.drain()
    with pytest.raises(StoreUnavailable) if away else contextlib.nullcontext():
        assert await batcher.put(6) == 60
    return heard


def test_who_does_not_wait_is_told_though_another_fails_at_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert asyncio.run(_told(away=False)) == [0, 10, 20, 30, 40, 50]
    assert len(caplog.records) == 2


def test_who_does_not_wait_is_told_that_the_store_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert asyncio.run(_told(away=True)) == [StoreUnavailable] * 6
    assert len(caplog.records) == 2


async def _same_key() -> None:
    sink = Sink()
    batcher = Batcher(sink, size=100, key=lambda item: item % 3)
    await asyncio.gather(*(batcher.put(i) for i in range(7)))
    assert sink.batches == [[0, 1, 2], [3, 4, 5], [6]]


def test_two_items_with_one_key_never_share_a_batch() -> None:
    asyncio.run(_same_key())


async def _gone_caller() -> None:
    sink = Sink()
    sink.gate.clear()
    batcher = Batcher(sink, size=1)
    callers = [asyncio.ensure_future(batcher.put(i)) for i in range(2)]
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    sink.gate.set()
    await batcher.drain()
    assert sink.batches == [[0], [1]]


def test_what_was_handed_over_is_written_though_its_caller_is_gone() -> None:
    asyncio.run(_gone_caller())


async def _failure() -> None:
    sink = Sink()
    sink.fail = True
    batcher = Batcher(sink, size=10)
    outcomes = await asyncio.gather(*(batcher.put(i) for i in range(3)), return_exceptions=True)
    assert [type(o) for o in outcomes] == [OSError] * 3
    sink.fail = False
    assert await batcher.put(1) == 10


def test_a_failed_flush_fails_its_items_and_no_others() -> None:
    asyncio.run(_failure())


async def _away() -> None:
    sink = Sink()
    sink.away = True
    batcher = Batcher(sink, size=2, most_waiting=10)
    outcomes = await asyncio.gather(*(batcher.put(i) for i in range(9)), return_exceptions=True)
    assert [type(o) for o in outcomes] == [StoreUnavailable] * 9
    assert sink.batches == [[0, 1]], "the others would have waited for the same answer"
    sink.away = False
    assert await batcher.put(1) == 10


def test_a_store_that_is_away_fails_all_that_waits_at_once() -> None:
    asyncio.run(_away())


async def _push_back() -> None:
    sink = Sink()
    sink.gate.clear()
    batcher = Batcher(sink, size=1, most_waiting=2)
    putting = [asyncio.ensure_future(batcher.put(i)) for i in range(10)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert batcher.waiting <= 2
    sink.gate.set()
    assert await asyncio.gather(*putting) == [i * 10 for i in range(10)]


def test_a_full_batcher_pushes_back() -> None:
    asyncio.run(_push_back())


@pytest.mark.parametrize("size", [1, 3])
def test_draining_an_idle_batcher_returns(size: int) -> None:
    async def drain() -> None:
        await Batcher(Sink(), size=size).drain()

    asyncio.run(drain())


async def _shares(items: int) -> list[int]:
    sink = Sink()
    sink.gate.clear()
    batcher = Batcher(sink, size=200, in_flight=2)
    putting = [asyncio.ensure_future(batcher.put(i)) for i in range(items)]
    for _ in range(5):
        await asyncio.sleep(0)
    sizes = [len(batch) for batch in sink.batches]
    sink.gate.set()
    assert await asyncio.gather(*putting) == [i * 10 for i in range(items)]
    return sizes


@pytest.mark.parametrize(("items", "sizes"), [(1, [1]), (20, [20]), (100, [50, 50])])
def test_flushes_under_way_at_once_share_what_there_is_to_do(items: int, sizes: list[int]) -> None:
    assert asyncio.run(_shares(items)) == sizes


async def _in_turns(items: int, later: int) -> list[int]:
    """The sizes of the batches where `later` come while the first items are written, and those
    who got an outcome then come again."""
    sink = Sink()
    sink.gate.clear()
    batcher = Batcher(sink, size=200)
    putting = [asyncio.ensure_future(batcher.put(i)) for i in range(items)]
    for _ in range(5):
        await asyncio.sleep(0)
    putting += [asyncio.ensure_future(batcher.put(items + i)) for i in range(later)]
    await asyncio.sleep(0)
    sink.gate.set()
    assert await asyncio.gather(*putting) == [i * 10 for i in range(items + later)]
    return [len(batch) for batch in sink.batches]


@pytest.mark.parametrize(
    ("items", "later", "sizes"),
    [(1, 20, [1, 20]), (10, 50, [10, 30, 20]), (50, 10, [50, 10]), (40, 40, [40, 40])],
)
def test_batches_that_follow_one_another_become_alike(
    items: int, later: int, sizes: list[int]
) -> None:
    assert asyncio.run(_in_turns(items, later)) == sizes


async def _one_after_another() -> None:
    sink = Sink()
    batcher = Batcher(sink, size=10, finishes=True)
    for i in range(3):
        assert await batcher.put(i) == i * 10
    sink.gate.clear()
    callers = [asyncio.ensure_future(batcher.put(i)) for i in range(3, 6)]
    await asyncio.sleep(0)
    assert sink.batches[3:] == [[3]], "who is alone does not wait for the loop"
    draining = asyncio.ensure_future(batcher.drain())
    await asyncio.sleep(0)
    sink.gate.set()
    await draining
    assert sink.batches[3:] == [[3], [4, 5]]
    assert await asyncio.gather(*callers) == [30, 40, 50]


def test_who_submits_alone_carries_his_own_item_and_others_go_together_after_it() -> None:
    asyncio.run(_one_after_another())


async def _away_while_carried() -> None:
    sink = Sink()
    batcher = Batcher(sink, size=2, finishes=True)
    await batcher.put(0)
    sink.away = True
    sink.gate.clear()
    callers = [asyncio.ensure_future(batcher.put(i)) for i in range(1, 4)]
    await asyncio.sleep(0)
    sink.gate.set()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(o) for o in outcomes] == [StoreUnavailable] * 3
    assert sink.batches == [[0], [1]]


def test_a_store_that_is_away_for_who_is_alone_fails_who_waits_behind_him() -> None:
    asyncio.run(_away_while_carried())


@pytest.mark.parametrize("goes", [False, True])
def test_all_who_drain_wait_for_who_carries_his_own_item(*, goes: bool) -> None:
    async def drain() -> None:
        sink = Sink()
        batcher = Batcher(sink, size=10, finishes=True)
        await batcher.put(0)
        sink.gate.clear()
        caller = asyncio.ensure_future(batcher.put(1))
        draining = [asyncio.ensure_future(batcher.drain()) for _ in range(2)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert sink.batches == [[0], [1]]
        assert not any(one.done() for one in draining)
        if goes:
            caller.cancel()
        sink.gate.set()
        await asyncio.gather(*draining)
        assert caller.done()
        assert caller.cancelled() is goes
        assert await batcher.put(2) == 20

    asyncio.run(drain())


class Picky:
    """Takes batches but for those with an item that it cannot take."""

    def __init__(self, bad: int, error: Exception) -> None:
        self.bad = bad
        self.error = error
        self.batches: list[list[int]] = []

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await asyncio.sleep(0)
        if self.bad in items:
            raise self.error
        return [item * 10 for item in items]


async def _with_a_bad_item(bad: int, error: Exception) -> tuple[list[object], int]:
    picky = Picky(bad, error)
    batcher = Batcher(picky, size=100)
    puts = (batcher.put(i) for i in range(64))
    outcomes: list[object] = [*await asyncio.gather(*puts, return_exceptions=True)]
    assert await batcher.put(99) == 990, "it goes on"
    return outcomes, len(picky.batches)


@pytest.mark.parametrize("bad", [0, 31, 63])
@pytest.mark.parametrize("error", [ValueError("a value"), RuntimeError("a defect")])
def test_an_item_that_cannot_be_taken_fails_alone(bad: int, error: Exception) -> None:
    outcomes, batches = asyncio.run(_with_a_bad_item(bad, error))
    assert outcomes == [error if i == bad else i * 10 for i in range(64)]
    assert batches <= 2 + 2 * 6, "in halves, not one by one"


@pytest.mark.parametrize("error", [OSError("away"), StoreUnavailable("away")])
def test_what_is_no_fault_of_an_item_fails_the_batch_at_once(error: Exception) -> None:
    outcomes, batches = asyncio.run(_with_a_bad_item(5, error))
    assert outcomes == [error] * 64
    assert batches == 2
