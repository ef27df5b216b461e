"""Store time never goes back, and a jump of the clock does not end leases."""

import asyncio
import threading

from andon.contract.requests import ClaimRequest
from andon.lifecycle.admission import admit
from andon.lifecycle.commands import Lose
from andon.lifecycle.timers import on_timer
from andon.model.task import Definition
from andon.stores.kit.monotone_clock import MOST_APART_MS, MonotoneClock
from andon.stores.memory import MemoryStore

HOUR = 3_600_000


class Hands:
    """A wall clock and a steady one, set by hand."""

    def __init__(self) -> None:
        self.wall = 1_000_000
        self.steady = 0

    def pass_time(self, ms: int) -> None:
        self.wall += ms
        self.steady += ms

    def clock(self) -> MonotoneClock:
        return MonotoneClock(lambda: self.wall, steady=lambda: self.steady)


def test_time_follows_the_wall_clock() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.pass_time(5)
    assert clock.now() == hands.wall


def test_time_does_not_go_back_and_does_not_stop_when_the_wall_clock_is_set_back() -> None:
    hands = Hands()
    clock = hands.clock()
    before = clock.now()
    hands.wall -= HOUR
    assert clock.now() == before
    hands.pass_time(100)
    assert clock.now() == before + 100


def test_a_wall_clock_set_forth_is_a_jump_told_once() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.pass_time(HOUR)
    assert clock.jumped() == 0
    hands.wall += HOUR
    assert clock.jumped() == HOUR
    assert clock.jumped() == 0


def test_virtual_time_may_be_advanced_without_a_jump() -> None:
    hands = Hands()
    clock = MonotoneClock(lambda: hands.wall)
    hands.wall += HOUR
    assert (clock.now(), clock.jumped()) == (hands.wall, 0)


def test_the_real_clock_has_no_jumps_of_its_own() -> None:
    clock = MonotoneClock()
    assert abs(clock.jumped()) < 1_000


def test_threads_see_one_time_that_never_goes_back() -> None:
    clock = MonotoneClock()
    went_back: list[int] = []

    def look() -> None:
        last = 0
        for _ in range(5_000):
            now = clock.now()
            if now < last:
                went_back.append(now)
            last = now

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert went_back == []


async def _one_run(store: MemoryStore) -> None:
    await store.open()
    await store.create([admit(Definition(id="t", name="job"), store.now(), "w")])
    request = ClaimRequest(worker="w", token="t", queues=("default",), limit=1, lease_ms=30_000)
    await store.claim(request)
    await store.take_due(0, 10, 0)


def test_a_jump_gives_every_run_one_full_lease_before_it_is_lost() -> None:
    async def scenario() -> None:
        hands = Hands()
        store = MemoryStore(clock=lambda: hands.wall, steady=lambda: hands.steady)
        await _one_run(store)
        hands.wall += HOUR
        assert (await store.take_due(0, 10, 0)).tasks == ()
        hands.pass_time(29_999)
        assert (await store.take_due(0, 10, 0)).tasks == ()
        hands.pass_time(1)
        (task,) = (await store.take_due(0, 10, 0)).tasks
        assert isinstance(on_timer(task, store.now()), Lose)

    asyncio.run(scenario())


def test_without_a_jump_a_silent_run_is_lost_after_its_lease() -> None:
    async def scenario() -> None:
        hands = Hands()
        store = MemoryStore(clock=lambda: hands.wall)
        await _one_run(store)
        hands.wall += HOUR
        (task,) = (await store.take_due(0, 10, 0)).tasks
        assert isinstance(on_timer(task, store.now()), Lose)

    asyncio.run(scenario())


def test_who_waits_while_it_reads_the_clocks_is_not_ahead_of_them() -> None:
    hands, waits = Hands(), [0]

    def read(hand: str) -> int:
        found = getattr(hands, hand)
        hands.pass_time(waits.pop() if waits else 0)
        return found

    clock = MonotoneClock(lambda: read("wall"), steady=lambda: read("steady"))
    waits.append(20)
    clock.now()
    for _ in range(3):
        assert clock.now() == hands.wall
        hands.pass_time(1)


def test_a_clock_that_caught_up_waits_for_the_wall_clock() -> None:
    hands = Hands()
    clock = hands.clock()
    clock.catch_up(hands.wall + 3)
    ahead = clock.now()
    hands.pass_time(2)
    assert clock.now() == ahead
    hands.pass_time(2)
    assert clock.now() == hands.wall


def test_a_time_that_another_process_wrote_is_caught_up_with_if_it_is_near() -> None:
    wall, steady = 1_000, 50
    clock = MonotoneClock(lambda: wall, steady=lambda: steady)
    clock.catch_up(1_001)
    assert clock.now() == 1_001
    clock.catch_up(900)
    assert clock.now() == 1_001
    clock.catch_up(1_001 + MOST_APART_MS + 1)
    assert clock.now() == 1_001
