"""What a process sends that has nothing to do."""

import asyncio

import pytest

from andon.client.app import Andon

from .conftest import TellOfStatements

WATCHED_S = 30.0
"""Long enough for the polls of all parts to come several times."""

MOST_A_SECOND = 1.5

ONCE_A_MINUTE = 15
"""What a minute that ends while they are watched adds: its roll-up, and a look at alerts."""


@pytest.mark.slow
async def test_an_idle_worker_sends_less_than_three_statements_in_two_seconds(
    url: str, tell_of_statements: TellOfStatements
) -> None:
    """A slower machine sends fewer, never more."""
    sent: list[str] = []
    async with Andon(url) as app:

        @app.task(queue="idle")
        async def nothing() -> None: ...

        async with app.working(queues=["idle"]):
            await (await nothing.submit()).result(timeout=30)
            await asyncio.sleep(2.0)  # what a task leaves to be done is done
            loop = asyncio.get_running_loop()
            tell_of_statements(sent.append)
            since = loop.time()
            await asyncio.sleep(WATCHED_S)
            count, watched = len(sent), loop.time() - since
    assert 0 < count < MOST_A_SECOND * watched + ONCE_A_MINUTE, sorted(sent[:count])
