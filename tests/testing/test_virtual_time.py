"""Virtual time: it passes only when nothing is ready, and stands still while threads work."""

import asyncio
import threading
import time

import pytest

from andon.testing import NothingLeft, VirtualLoop, run_virtual, virtual_time


def virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def test_a_year_of_sleep_takes_no_time():
    began = time.monotonic()

    async def main() -> float:
        await asyncio.sleep(365 * 86_400)
        return virtual_loop().time()

    assert run_virtual(main()) == 365 * 86_400
    assert time.monotonic() - began < 5


@virtual_time
async def test_sleepers_wake_in_the_order_of_their_times():
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    await asyncio.gather(*(sleeper(s) for s in (3, 0.001, 2, 60, 0)))
    assert woken == [0, 0.001, 2, 3, 60]


@virtual_time
async def test_time_does_not_pass_while_something_is_ready():
    loop = virtual_loop()
    alarm = loop.call_later(0.001, pytest.fail, "time passed")
    for _ in range(1_000):
        await asyncio.sleep(0)
    alarm.cancel()
    assert loop.time() == 0


@virtual_time
async def test_timeouts_fire_in_virtual_time():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3_600):
            await asyncio.Event().wait()
    assert virtual_loop().time() == 3_600


@virtual_time
async def test_a_sleep_until_a_millisecond_is_never_too_short():
    loop = virtual_loop()
    for _ in range(100):
        await asyncio.sleep(0.1234567)
        until = loop.wall_ms() + 777
        await asyncio.sleep((until - loop.wall_ms()) / 1000)
        assert loop.wall_ms() == until


@virtual_time
async def test_time_stands_still_while_a_thread_works():
    loop = virtual_loop()
    release = threading.Event()
    alarm = loop.call_later(0.001, pytest.fail, "time passed")

    def work() -> str:
        loop.call_soon_threadsafe(release.set)
        release.wait()
        return "done"

    assert await asyncio.to_thread(work) == "done"
    alarm.cancel()
    assert loop.time() == 0


@virtual_time
async def test_time_passes_while_a_thread_waits_for_the_loop():
    loop = virtual_loop()

    async def later() -> str:
        with loop.thread_waits():
            await asyncio.sleep(60)
        return "done"

    def work() -> str:
        return asyncio.run_coroutine_threadsafe(later(), loop).result()

    assert await asyncio.to_thread(work) == "done"
    assert loop.time() == 60


@virtual_time
async def test_quiet_comes_when_everybody_waits_for_time_to_pass():
    loop = virtual_loop()
    steps = 0

    async def busy() -> None:
        nonlocal steps
        for _ in range(50):
            steps += 1
            await asyncio.sleep(0)
        await asyncio.sleep(10)
        steps = -1

    task = asyncio.create_task(busy())
    await loop.quiet()
    assert (steps, loop.time()) == (50, 0)
    await loop.moved()
    await task
    assert (steps, loop.time()) == (-1, 10)


def test_waiting_for_what_cannot_happen_ends_with_an_explanation():
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NothingLeft, match="no timer and no thread"):
        run_virtual(main())


def test_a_decorated_test_keeps_its_name_and_parameters():
    @virtual_time
    async def scenario(app: str) -> str:
        return app

    assert scenario.__name__ == "scenario"
    assert scenario("x") == "x"
