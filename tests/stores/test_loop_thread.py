"""A loop in a thread of its own, for what blocks its callers."""

import asyncio
import threading

import pytest

from andon.model.errors import StoreUnavailable
from andon.stores.kit.loop_thread import LoopThread

NAME = "test-loop-thread"


async def nothing() -> None:
    pass


def is_running() -> bool:
    return any(thread.name == NAME for thread in threading.enumerate())


def test_the_first_call_makes_the_thread_and_closing_ends_it() -> None:
    thread = LoopThread(NAME, "the store")

    async def name() -> str:
        return threading.current_thread().name

    assert not is_running()
    assert [thread.run(name), thread.run(name)] == [NAME, NAME]
    thread.close(nothing)
    assert not is_running()


def test_closing_what_was_never_used_makes_no_thread() -> None:
    thread = LoopThread(NAME, "the store")
    thread.close(nothing)
    thread.close(nothing)
    assert not is_running()


def test_an_error_of_the_work_is_the_callers() -> None:
    thread = LoopThread(NAME, "the store")

    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        thread.run(fails)
    thread.close(nothing)


def test_who_calls_after_it_was_closed_is_told() -> None:
    thread = LoopThread(NAME, "redis://here")
    thread.close(nothing)
    with pytest.raises(StoreUnavailable, match=r"The store at redis://here is closed\."):
        thread.run(nothing)


@pytest.mark.parametrize("is_bad", [False, True])
def test_who_waits_while_it_is_closed_is_told(is_bad: bool) -> None:
    thread = LoopThread(NAME, "redis://here")
    began = threading.Event()
    told: list[BaseException] = []

    async def for_ever() -> None:
        began.set()
        await asyncio.Event().wait()

    async def end() -> None:
        if is_bad:
            raise OSError("the connection cannot be closed")

    def call() -> None:
        try:
            thread.run(for_ever)
        except StoreUnavailable as error:
            told.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    assert began.wait(60)
    if is_bad:
        with pytest.raises(OSError, match="cannot be closed"):
            thread.close(end)
    else:
        thread.close(end)
    caller.join(60)
    assert [str(error) for error in told] == ["The store at redis://here was closed meanwhile."]
    assert not is_running()
