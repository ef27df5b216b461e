"""Queues from Python: declared in code, configured, paused and listed."""

import pytest

from andon import Andon, Queue
from andon.client.queues import apply_declared
from andon.errors import ConfigurationError
from andon.testing import running, virtual_time


@virtual_time
async def test_a_declared_queue_is_configured_when_a_worker_starts():
    app = Andon("memory://", queues=[Queue("mail", rate_limit="300/m", max_concurrent=5)])
    async with running(app) as t:
        await t.run_until_idle()
        mail = await app.queues.get("mail")
    assert mail is not None
    assert (mail.config.rate_limit, mail.config.max_concurrent) == (5, 5)


@virtual_time
async def test_what_was_changed_by_hand_holds_until_the_code_says_something_new(app: Andon):
    async with running(app, worker=False):
        engine = await app.engine()
        await apply_declared(engine, [Queue("mail", max_concurrent=5)])
        await app.queues.pause("mail")
        await app.queues.configure("mail", max_concurrent=9)

        assert await apply_declared(engine, [Queue("mail", max_concurrent=5)]) == []
        mail = await app.queues.get("mail")
        assert mail is not None
        assert (mail.paused, mail.config.max_concurrent) == (True, 9)

        await apply_declared(engine, [Queue("mail", max_concurrent=6)])
        mail = await app.queues.get("mail")
        assert mail is not None
        assert (mail.paused, mail.config.max_concurrent) == (True, 6)


@virtual_time
async def test_queues_are_paused_resumed_and_listed_with_their_counts(app: Andon):
    @app.task(name="send", queue="mail")
    async def send() -> None: ...

    async with running(app, worker=False):
        await send.submit()
        assert (await app.queues.pause("mail")).paused
        [mail] = await app.queues.list()
        assert (mail.name, mail.paused, mail.pending) == ("mail", True, 1)
        assert repr(mail) == "<Queue mail: 1 pending, paused>"
        assert mail.to_dict()["counts"] == {"pending": 1}
        assert not (await app.queues.resume("mail")).paused
        assert await app.queues.get("other") is None


def test_a_queue_that_cannot_be_is_refused_where_it_is_declared():
    with pytest.raises(TypeError, match="rate_limit"):
        Queue("mail", rate_limits=5)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ConfigurationError, match="5/x"):
        Queue("mail", rate_limit="5/x")
    with pytest.raises(ConfigurationError, match="queue"):
        Queue("no spaces")
    with pytest.raises(ConfigurationError, match="max_retires"):
        Queue("mail", policy={"max_retires": 3})  # pyright: ignore[reportArgumentType]


async def test_the_history_of_a_queue_is_a_row_a_day_the_newest_first(app: Andon):
    task = app.task(name="count")(lambda: None)
    await task.submit()
    today, *before = await app.queues.history("default")
    assert len(before) == 6
    assert all(day.day < today.day for day in before)
    assert sum(day.submitted for day in (today, *before)) == 1
    assert today.processed == today.failed == 0
    with pytest.raises(ConfigurationError, match="1 to 90 days"):
        await app.queues.history("default", days=91)
