"""The fixtures for pytest, used as a project would use them."""

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
pytest_plugins = ["andon.testing.plugin"]

@pytest.fixture
def andon_app():
    from tasks import app
    return app
"""

TASKS = """
from andon import Andon
app = Andon("sqlite:///never.db")

@app.task(name="mail")
async def mail(to: str) -> str:
    return to
"""

TESTS = """
import asyncio
from tasks import mail

async def test_a_day_passes_at_once(andon_test):
    handle = await mail.submit_in(86_400, "ann")
    await andon_test.advance(days=1)
    assert await handle.result() == "ann"

async def test_each_test_begins_anew(andon_test):
    assert not await andon_test.submitted()

def test_a_sync_test_is_left_alone(andon_test):
    assert andon_test.now.year == 2030
"""


def test_async_tests_run_in_virtual_time(pytester: pytest.Pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(tasks=TASKS, test_shop=TESTS)
    ran = pytester.runpytest_subprocess("-p", "no:randomly")
    ran.assert_outcomes(passed=3)
    assert not (pytester.path / "never.db").exists()
