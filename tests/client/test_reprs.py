"""What a user gets in hand says in a few words what it is."""

from typing import Any

from andon import Andon, Context, Queue
from andon.testing import running, virtual_time


@virtual_time
async def test_whatever_is_handed_to_users_is_short_in_words(app: Andon):
    seen: list[str] = []

    @app.task(name="send")
    async def send(ctx: Context, to: str) -> str:
        seen.append(repr(ctx))
        return to

    async with running(app) as t:
        handle = await send.submit("ann")
        await t.run_until_idle()
        worker = await app.worker(id="w1")
        sync: Any = app.sync
        handed: list[Any] = [
            *(app, app.queues, app.tasks, app.policies, send, send.draft("bob"), handle, worker),
            *(sync, sync.queues, sync.tasks, sync.policies, send.sync, handle.sync),
            *(await handle.get(), *await handle.history(), *await app.queues.list()),
        ]
    assert seen == [f"<Context of send {handle.id} run 0>"]
    for one in handed:
        told = repr(one)
        assert len(told) <= 100, told
        assert " object at 0x" not in told
        assert told.startswith(f"<{type(one).__name__.removesuffix('App').removesuffix('View')}")


def test_a_declared_queue_shows_its_rate_as_it_was_written():
    assert repr(Queue("mail", rate_limit="5/h")) == "Queue('mail', rate_limit='5/h')"
    assert repr(Queue("mail", max_concurrent=5)) == "Queue('mail', max_concurrent=5)"


@virtual_time
async def test_a_move_is_told_by_its_states(app: Andon):
    async with running(app, worker=False):
        handle = await app.submit("send")
        await handle.cancel()
        submitted, cancelled = map(repr, await handle.history())
    assert submitted == "<EventView 1 submit: nothing -> pending (submitted)>"
    assert cancelled.startswith("<EventView 2 cancel: pending -> cancelled")


def test_no_repr_has_the_password_of_the_store():
    app: Any = Andon("postgresql://shop:sesame@db.example/shop", token="open-sesame")
    for one in (app, app.queues, app.tasks, app.policies, app.sync, app.sync.queues):
        assert "sesame" not in repr(one)
        assert "db.example" in repr(one)
