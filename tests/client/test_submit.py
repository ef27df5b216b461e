"""Submitting: what is stored, what is refused, and what a repeat does."""

from typing import Any

import pytest

from andon import Andon, State
from andon.client.function import TaskFunction
from andon.engine.base import Submission
from andon.model.errors import (
    InvalidSubmission,
    SubmissionsRefused,
    TaskConflict,
    UniqueKeyHeld,
)
from andon.model.fleet import TypeInfo
from andon.testing import running, virtual_time

PLACES = pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "in the middle", "last"])


@pytest.fixture
def send(app: Andon):
    @app.task(name="send")
    async def send(to: str, copies: int = 1) -> str:
        return to * copies

    return send


@virtual_time
async def test_a_submitted_task_is_stored_with_its_arguments(app: Andon, send):
    async with running(app, worker=False):
        handle = await send.options(tags=["x"], headers={"a": "b"}, priority=2).submit("ann")
        task = await handle.get()
    assert (task.name, task.args, task.state) == ("send", {"to": "ann"}, State.PENDING)
    assert (task.tags, task.headers, task.priority) == (("x",), {"a": "b"}, 2)


@virtual_time
async def test_the_types_policy_is_known_to_the_submitter_without_a_worker(app: Andon):
    @app.task(name="slow", max_retries=7)
    def slow() -> None: ...

    async with running(app, worker=False):

        @app.task(name="late", max_retries=8)  # registered after the application was opened
        def late() -> None: ...

        assert (await (await slow.submit()).get()).policy.max_retries == 7
        assert (await (await late.submit()).get()).policy.max_retries == 8


@virtual_time
async def test_submitting_later_waits_in_scheduled(app: Andon, send):
    async with running(app, worker=False) as t:
        soon = await send.submit_in(60, "ann")
        then = await send.submit_at(t.now.replace(year=2031), "ann")
        assert await soon.status() is State.SCHEDULED
        assert await then.status() is State.SCHEDULED
        await t.advance(minutes=1)
        assert await soon.status() is State.PENDING
        assert await then.status() is State.SCHEDULED


@virtual_time
async def test_a_repeat_is_the_same_task_and_another_definition_a_conflict(app: Andon, send):
    async with running(app, worker=False):
        first = await send.options(id="one").submit("ann")
        again = await send.options(id="one").submit("ann")
        assert (first.created, again.created) == (True, False)
        with pytest.raises(TaskConflict):
            await send.options(id="one").submit("bob")


@virtual_time
async def test_a_unique_key_names_its_holder(app: Andon, send):
    async with running(app, worker=False):
        unique = send.options(unique=True)
        holder = await unique.submit("ann")
        with pytest.raises(UniqueKeyHeld) as refused:
            await unique.submit("ann")
        assert refused.value.holder == holder.id
        await unique.submit("bob")


@virtual_time
async def test_drafts_may_depend_on_one_another_in_any_order(app: Andon, send):
    async with running(app, worker=False):
        parent = send.draft("ann")
        child = send.options(depends_on=parent).draft("bob")
        child_handle, parent_handle = await app.submit_many([child, parent])
        assert (child_handle.id, parent_handle.id) == (child.id, parent.id)
        assert await child_handle.status() is State.BLOCKED
        assert await parent_handle.status() is State.PENDING


@virtual_time
async def test_of_many_each_stands_alone(app: Andon, send):
    async with running(app, worker=False):
        good = send.draft("ann")
        bad = send.options(delay=60, deadline_in=30).draft("bob")
        with pytest.raises(SubmissionsRefused, match="1 of 2 submissions") as refused:
            await send.submit_many([good, bad])
        assert list(refused.value.errors) == [bad.id]
        assert refused.value.accepted == (good.id,)
        assert await app.handle(good.id).status() is State.PENDING


@virtual_time
async def test_a_submission_by_name_needs_no_code(app: Andon):
    async with running(app, worker=False):
        handle = await app.submit("elsewhere", {"self": 1, "name": "x"}, queue="far", max_retries=1)
        task = await handle.get()
    assert (task.name, task.queue) == ("elsewhere", "far")
    assert task.args == {"self": 1, "name": "x"}
    assert task.policy.max_retries == 1


@virtual_time
async def test_a_submission_by_name_is_checked_where_the_code_is_known(app: Andon, send):
    async with running(app, worker=False):
        with pytest.raises(InvalidSubmission, match="'to' is missing"):
            await app.submit("send", {"copies": 2})
        assert (await (await app.submit("send", ["ann"])).get()).args == {"to": "ann"}


@virtual_time
async def test_an_invalid_submission_is_recorded_where_the_policy_says_so(app: Andon):
    @app.task(name="strict", on_invalid="record")
    def strict(x: int) -> None: ...

    async with running(app, worker=False):
        with pytest.raises(InvalidSubmission):
            await strict.options(id="bad").submit("no number")  # pyright: ignore
        task = await app.get("bad")
    assert task is not None
    assert (task.state, task.reason) == (State.FAILED, "validation-error")


@virtual_time
async def test_middleware_sees_and_changes_every_submission(send):
    class Trace:
        def on_submit(self, submission: Submission) -> Submission:
            from msgspec.structs import replace

            return replace(submission, headers={"trace": "1"})

    class Around:
        """Middleware that sees runs alone."""

        async def around(self, ctx: object, proceed: object) -> None: ...

    app = Andon("memory://", middleware=[Trace(), Around()])
    async with running(app, worker=False):
        assert (await (await app.submit("x")).get()).headers == {"trace": "1"}


def test_a_task_function_keeps_its_options_apart_from_those_derived_from_it(
    send: TaskFunction[..., str, object],
):
    mail = send.options(queue="mail")
    assert mail.options(priority=1).draft("a").submission.queue == "mail"
    assert send.draft("a").submission.queue == "default"


@virtual_time
async def test_what_is_submitted_by_name_goes_to_the_queue_of_the_application_if_it_has_one():
    app = Andon("memory://", queue="all")
    async with running(app, worker=False):
        await (await app.engine()).publish_types([TypeInfo(name="send", queue="mail")])
        assert (await (await app.submit("send")).get()).queue == "all"


@virtual_time
async def test_what_is_submitted_by_name_goes_to_the_queue_that_workers_have_published(app: Andon):
    async with running(app, worker=False):
        await (await app.engine()).publish_types([TypeInfo(name="send", queue="mail")])
        assert (await (await app.submit("send")).get()).queue == "mail"
        assert (await (await app.submit("job")).get()).queue == "default"
        chosen = app.draft("send", queue="post")
        assert (await (await chosen.submit()).get()).queue == "post"


@virtual_time
@PLACES
async def test_what_is_no_draft_is_refused_and_nothing_is_submitted(app: Andon, send, place: int):
    items: list[Any] = [send.draft("ann"), send.draft("bob")]
    items.insert(place, ("cat",))
    async with running(app, worker=False):
        with pytest.raises(TypeError, match=r"drafts, such as charge\.draft.*'tuple'"):
            await send.submit_many(items)
        assert [task async for task in app.find()] == []
