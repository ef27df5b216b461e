"""An application opens by itself, once per loop, and is closed with the loop at the latest."""

import asyncio

import pytest

from andon import Andon, State
from andon.client.connections import Connections
from andon.model.errors import ConfigurationError, StoreUnavailable


class FakeEngine:
    def __init__(self, failures: int = 0) -> None:
        self.opened = 0
        self.closed = 0
        self.failures = failures

    async def open(self) -> None:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("away")
        self.opened += 1

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


class Made(list[FakeEngine]):
    def __init__(self, failures: int = 0) -> None:
        self.failures = failures

    def __call__(self):
        self.append(FakeEngine(self.failures))
        return self[-1]


def connections(made: Made, *, shared: bool = True) -> Connections:
    return Connections(made, shared=shared)  # pyright: ignore[reportArgumentType]


def test_many_first_uses_at_once_open_one_engine():
    made = Made()
    held = connections(made)

    async def main() -> None:
        engines = await asyncio.gather(*(held.engine() for _ in range(20)))
        assert set(engines) == {made[0]}

    asyncio.run(main())
    assert [(engine.opened, engine.closed) for engine in made] == [(1, 1)]


def test_the_end_of_the_loop_closes_what_was_never_closed():
    made = Made()
    held = connections(made)
    asyncio.run(held.engine())
    assert made[0].closed == 1


def test_closing_twice_closes_once():
    made = Made()
    held = connections(made)

    async def main() -> None:
        await held.engine()
        await held.close()
        await held.close()

    asyncio.run(main())
    assert made[0].closed == 1


def test_each_loop_has_an_engine_of_its_own():
    made = Made()
    held = connections(made)
    asyncio.run(held.engine())
    asyncio.run(held.engine())
    assert len(made) == 2


def test_a_store_in_memory_is_not_split_between_two_loops():
    made = Made()
    held = connections(made, shared=False)

    async def main() -> None:
        await held.engine()
        with pytest.raises(ConfigurationError, match="memory of another event loop"):
            await asyncio.to_thread(asyncio.run, held.engine())

    asyncio.run(main())
    asyncio.run(held.engine())  # the first loop is gone


def test_a_failed_opening_is_tried_again_by_the_next_use():
    made = Made(failures=1)
    held = connections(made)

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await held.engine()
        made.failures = 0
        await held.engine()

    asyncio.run(main())
    assert [engine.opened for engine in made] == [0, 0, 1]


def test_a_caller_who_goes_away_does_not_undo_the_opening():
    made = Made()
    held = connections(made)

    async def main() -> None:
        impatient = asyncio.create_task(held.engine())
        await asyncio.sleep(0)
        impatient.cancel()
        await held.engine()

    asyncio.run(main())
    assert (len(made), made[0].opened) == (1, 1)


def test_the_application_opens_at_the_first_use_and_with_async_with():
    app = Andon("memory://")

    async def main() -> None:
        assert await (await app.submit("x")).status() is State.PENDING
        await app.close()
        async with app:
            await app.submit("y")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ("sqlite:///given.db", "sqlite:///env.db", "sqlite:///given.db"),
        (None, "sqlite:///env.db", "sqlite:///env.db"),
        (None, "", "sqlite:///andon.db"),
    ],
)
def test_the_url_is_given_or_from_the_environment(monkeypatch, given, environment, expected):
    monkeypatch.setenv("ANDON_URL", environment)
    assert Andon(given).url == expected
