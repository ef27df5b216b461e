"""A submit that nobody awaits says what should have been written."""

import asyncio
import gc

import pytest

from andon import Andon
from andon.testing import running, virtual_time


@pytest.fixture
def send(app: Andon):
    @app.task(name="send")
    async def send(to: str) -> str:
        return to

    return send


def test_asking_an_unawaited_submit_for_its_id_fails_and_names_the_sync_face(send):
    def forgets() -> str:
        return send.submit("ann").id

    with (
        pytest.warns(RuntimeWarning, match=r"submit.*\.sync.*never awaited"),
        pytest.raises(AttributeError, match=r"'coroutine'.*'id'"),
    ):
        forgets()
    gc.collect()


def test_a_submit_that_is_never_awaited_warns_that_nothing_was_done(send):
    def forgets() -> None:
        send.submit("ann")
        gc.collect()

    with pytest.warns(RuntimeWarning, match=r"submit.*\.sync.*never awaited"):
        forgets()


@virtual_time
async def test_it_can_be_awaited_gathered_and_made_a_task(app: Andon, send):
    async with running(app, worker=False):
        one = await send.submit("a")
        two, three = await asyncio.gather(send.submit("b"), send.submit("c"))
        four = await asyncio.create_task(send.submit("d"))
        assert len({one.id, two.id, three.id, four.id}) == 4


@virtual_time
async def test_it_is_awaited_once(app: Andon, send):
    async with running(app, worker=False):
        call = send.submit("a")
        await call
        with pytest.raises(RuntimeError, match="already"):
            await call


def test_asyncio_run_takes_it(tmp_path):
    app = Andon(f"sqlite:///{tmp_path}/andon.db")

    @app.task(name="send")
    async def send(to: str) -> str:
        return to

    assert asyncio.run(send.submit("ann")).created
