"""Fixtures for pytest. Not registered by itself: put this into your `conftest.py`.

    pytest_plugins = ["andon.testing.plugin"]

    @pytest.fixture
    def andon_app():
        from shop.tasks import app
        return app

A test that is `async def` and asks for `andon_test` then runs in virtual time, its application in
memory with a worker:

    async def test_a_reminder_goes_out(andon_test):
        await remind.submit_in(86_400, "ann")
        await andon_test.advance(days=1)
        assert await andon_test.submitted("mail")
"""

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from andon.client.app import Andon
from andon.testing.app import TestApp, running
from andon.testing.clock import VirtualLoop

_runners = pytest.StashKey[asyncio.Runner]()


@pytest.fixture
def andon_app() -> Andon:
    """The application under test. Override it with your own.

    Example:
        import pytest

        @pytest.fixture
        def andon_app():
            return app
    """
    return Andon("memory://")


@pytest.fixture
def andon_test(request: pytest.FixtureRequest, andon_app: Andon) -> Iterator[TestApp]:
    """`andon_app` in memory and in virtual time, its worker running.

    Example:
        async def test_a_reminder_goes_out(andon_test):
            await remind.submit_in(86_400, "ann")
            await andon_test.advance(days=1)
            assert await andon_test.submitted("remind")
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        request.node.stash[_runners] = runner
        scope = running(andon_app)
        test = runner.run(scope.__aenter__())
        yield test
        runner.run(scope.__aexit__(None, None, None))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test that asked for `andon_test` in that fixture's loop."""
    runner = pyfuncitem.stash.get(_runners, None)
    if runner is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True
