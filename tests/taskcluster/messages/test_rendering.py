"""What is told of each move: which messages, with what in them, and as things were at the time."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.taskcluster.kit import slugid
from tests.taskcluster.shaped import check_body

from andon.artifacts.base import Artifact
from andon.lifecycle.commands import (
    Cancel,
    Complete,
    Fail,
    Reject,
    Release,
    Reprioritise,
    Rerun,
    Schedule,
    ShutdownRetry,
)
from andon.model.groups import GroupHappening, GroupNews
from andon.model.task import TaskError
from andon.model.words import Reason
from andon.service.taskcluster.messages.exchanges import PREFIX, Exchange, Message
from andon.service.taskcluster.messages.rendering import (
    Group,
    artifact_messages,
    ends,
    group_message,
    group_resolved,
    is_of,
    messages_of,
    run_resolved_by,
)

from .life import WORKER, Life, subject

_WRONG = TaskError(message="it went wrong")


async def told(life: Life, task_id: str, **options: Any) -> list[Message]:
    """Every message about a task, made after the last of its moves."""
    known = subject(await life.task(task_id))
    found = [
        message
        for event in await life.events(task_id)
        for message in messages_of(event, known, **options)
    ]
    for message in found:
        check_body(message.exchange, message.body)
    return found


def brief(message: Message) -> tuple[Any, ...]:
    """What tells messages apart: exchange, run, state, states of runs, retries left."""
    document: dict[str, Any] = msgspec.json.decode(message.body)
    status = document["status"]
    runs = [run["state"] for run in status["runs"]]
    return (
        message.exchange.value,
        document.get("runId"),
        status["state"],
        runs,
        status["retriesLeft"],
    )


async def briefs(life: Life, task_id: str, **options: Any) -> list[tuple[Any, ...]]:
    return [brief(message) for message in await told(life, task_id, **options)]


DEFINED = ("task-defined", None, "unscheduled", [], 5)
PENDING = ("task-pending", 0, "pending", ["pending"], 5)
RUNNING = ("task-running", 0, "running", ["running"], 5)

ONE_RUN = [
    (Complete(), ("task-completed", 0, "completed", ["completed"], 5)),
    (Fail(error=_WRONG, retryable=False), ("task-failed", 0, "failed", ["failed"], 5)),
    (
        Reject(error=_WRONG, reason=Reason.MALFORMED_PAYLOAD),
        ("task-exception", 0, "exception", ["exception"], 5),
    ),
    (
        Fail(error=_WRONG, reason=Reason.INTERNAL_ERROR),
        ("task-exception", 0, "exception", ["exception"], 5),
    ),
    (ShutdownRetry(), ("task-pending", 1, "pending", ["exception", "pending"], 4)),
    (Release(), ("task-pending", 1, "pending", ["exception", "pending"], 5)),
    (
        Fail(error=_WRONG, reason=Reason.INTERMITTENT_TASK),
        ("task-pending", 1, "pending", ["exception", "pending"], 4),
    ),
]


@pytest.mark.parametrize(("command", "last"), ONE_RUN)
async def test_a_task_that_runs_once(life: Life, command: Any, last: tuple[Any, ...]):
    task_id = await life.create()
    await life.claim(task_id)
    await life.report(task_id, command)
    assert await briefs(life, task_id) == [DEFINED, PENDING, RUNNING, last]


async def test_a_task_that_waits_is_only_defined_until_it_is_released(life: Life):
    task_id = slugid()
    await life.create(task_id=task_id, dependencies=[task_id])
    assert await briefs(life, task_id) == [DEFINED]
    await life.act(task_id, Schedule())
    assert await briefs(life, task_id) == [DEFINED, PENDING]


async def test_an_end_without_a_run_has_the_run_that_it_is_shown_with(life: Life):
    task_id = slugid()
    await life.create(task_id=task_id, dependencies=[task_id])
    await life.act(task_id, Cancel(force=True))
    last = (await told(life, task_id))[-1]
    assert brief(last) == ("task-exception", 0, "exception", ["exception"], 5)
    document = msgspec.json.decode(last.body)
    assert document["status"]["runs"][0]["reasonResolved"] == "canceled"
    assert "workerId" not in document


async def test_a_deadline_and_a_lost_claim_are_exceptions(life: Life):
    task_id = await life.create(retries=0)
    await life.claim(task_id)
    await life.later(1_300, task_id)
    assert (await briefs(life, task_id))[-1][:3] == ("task-exception", 0, "exception")
    other = await life.create()
    await life.later(3_700, other)
    last = (await told(life, other))[-1]
    assert brief(last)[:3] == ("task-exception", 0, "exception")
    assert last.document["status"]["runs"][0]["reasonResolved"] == "deadline-exceeded"


async def test_what_moves_nothing_is_not_told(life: Life):
    task_id = await life.create()
    await life.act(task_id, Reprioritise(priority=-3))
    assert await briefs(life, task_id) == [DEFINED, PENDING]


async def test_another_priority_is_told_with_what_it_was_before(life: Life):
    task_id = await life.create(priority="low", routes=["index.a"])
    await life.act(task_id, Reprioritise(priority=2))
    await life.claim(task_id)
    await life.act(task_id, Reprioritise(priority=-2))
    await life.report(task_id, Complete())
    messages = await told(life, task_id)
    assert [
        (one.exchange.value, one.document["status"]["priority"], one.document["status"]["state"])
        for one in messages
    ] == [
        ("task-defined", "low", "unscheduled"),
        ("task-pending", "low", "pending"),
        ("task-priority-changed", "very-high", "pending"),
        ("task-running", "very-high", "running"),
        ("task-priority-changed", "very-low", "running"),
        ("task-completed", "very-low", "completed"),
    ]
    first, second = (one for one in messages if one.exchange is Exchange.TASK_PRIORITY_CHANGED)
    assert set(first.document) == {"version", "status", "oldPriority", "newPriority"}
    assert (first.document["oldPriority"], first.document["newPriority"]) == ("low", "very-high")
    assert (second.document["oldPriority"], second.document["newPriority"]) == (
        "very-high",
        "very-low",
    )
    for one in (first, second):
        assert one.routing_key.startswith(f"primary.{task_id}._._._.")
        assert one.routes == ("route.index.a",)


async def test_a_priority_beyond_those_with_names_is_told_only_if_the_name_is_another(life: Life):
    task_id = await life.create(priority="high")
    for priority in (4, 5, 3):
        await life.act(task_id, Reprioritise(priority=priority))
    changes = [one for one in await told(life, task_id) if "newPriority" in one.document]
    assert [one.document["newPriority"] for one in changes] == ["highest"]


async def test_a_run_that_is_retried_is_an_exception_only_where_that_is_asked_for(life: Life):
    task_id = await life.create()
    await life.claim(task_id)
    await life.report(task_id, ShutdownRetry())
    assert [one[0] for one in await briefs(life, task_id)][3:] == ["task-pending"]
    both = await told(life, task_id, retries_as_exceptions=True)
    assert [brief(one)[:2] for one in both[3:]] == [("task-exception", 0), ("task-pending", 1)]
    assert both[3].document["workerId"] == "i-0a1b"


async def long_life(life: Life) -> str:
    task_id = await life.create()
    await life.claim(task_id)
    await life.report(task_id, ShutdownRetry())
    await life.claim(task_id)
    await life.later(1_300, task_id)
    await life.claim(task_id)
    await life.report(task_id, Fail(error=_WRONG, retryable=False))
    await life.act(task_id, Rerun())
    await life.claim(task_id)
    await life.act(task_id, Cancel(force=True))
    await life.act(task_id, Rerun())
    await life.claim(task_id)
    await life.report(task_id, Complete())
    return task_id


async def test_a_message_that_is_made_late_is_the_one_that_was_made_at_once(life: Life):
    task_id = await long_life(life)
    events = await life.events(task_id)
    of_revision = {one.status.revision: one for one in life.snapshots}
    last = subject(await life.task(task_id))
    compared = 0
    for event in events:
        snapshot = of_revision.get(event.revision)
        if snapshot is None:
            continue
        early, late = messages_of(event, subject(snapshot)), messages_of(event, last)
        assert [one.id for one in early] == [one.id for one in late]
        for one, other in zip(early, late, strict=True):
            document, again = (msgspec.json.decode(each.body) for each in (one, other))
            _without_lease(document)
            _without_lease(again)
            assert document == again
            assert one.keys == other.keys
            compared += 1
    assert compared > len(events)


def _without_lease(document: dict[str, Any]) -> None:
    """A renewal is no move: until when a run was claimed is known as of now only."""
    document.pop("takenUntil", None)
    for run in document["status"]["runs"]:
        run.pop("takenUntil", None)


async def test_every_message_has_an_id_of_its_own(life: Life):
    task_id = await long_life(life)
    messages = await told(life, task_id, retries_as_exceptions=True)
    assert len({one.id for one in messages}) == len(messages)


async def test_bodies_and_keys_are_those_of_the_original(life: Life):
    group = slugid()
    task_id = await life.create(taskGroupId=group, routes=["index.a.b", "other"])
    await life.claim(task_id)
    await life.report(task_id, Complete())
    defined, pending, running, completed = await told(life, task_id)
    always = {"version", "status", "task"}
    table = (
        (defined, always),
        (pending, {*always, "runId"}),
        (running, {*always, "runId", "workerGroup", "workerId", "takenUntil"}),
        (completed, {*always, "runId", "workerGroup", "workerId"}),
    )
    for message, names in table:
        document = msgspec.json.decode(message.body)
        assert set(document) == names
        assert document["version"] == 1
        assert document["task"] == {"tags": {"kind": "test"}}
        assert message.keys[1:] == ("route.index.a.b", "route.other")
        assert len(message.routing_key.split(".")) == 10
    place = f"proj-gecko.linux-large.sched.{group}._"
    assert defined.routing_key == f"primary.{task_id}._._._.{place}"
    assert pending.routing_key == f"primary.{task_id}.0._._.{place}"
    assert running.routing_key == f"primary.{task_id}.0.us-east.i-0a1b.{place}"
    assert completed.routing_key == running.routing_key
    assert defined.exchange.full_name == PREFIX + "task-defined"


async def test_a_key_is_never_longer_than_a_broker_takes(life: Life):
    task_id = await life.create(
        taskQueueId=f"{'p' * 38}/{'w' * 38}", schedulerId="s" * 38, routes=["r" * 249]
    )
    for message in await told(life, task_id):
        assert all(len(key.encode()) <= 255 for key in message.keys)
        assert message.routing_key.endswith("._")


async def test_artifacts_are_told_with_the_end_of_their_run(life: Life):
    task_id = await life.create()
    await life.claim(task_id)
    await life.report(task_id, Complete())
    *_, end = await life.events(task_id)
    assert run_resolved_by(end) == 0

    def artifact(name: str, kind: Any) -> Artifact:
        return Artifact(
            task=task_id, run=0, name=name, kind=kind, content_type="text/plain", created_at=1
        )

    left = [artifact("a", "file"), artifact("b", "link"), artifact("c", "error")]
    first, second = artifact_messages(end, subject(await life.task(task_id)), left)
    assert first.exchange is Exchange.ARTIFACT_CREATED
    document = msgspec.json.decode(first.body)
    assert set(document) == {
        "version", "status", "runId", "workerGroup", "workerId", "artifact",
    }  # fmt: skip
    assert document["artifact"]["name"] == "b"
    assert document["artifact"]["storageType"] == "link"
    assert set(document["artifact"]) == {"storageType", "name", "expires", "contentType"}
    assert first.id != second.id
    assert f".0.{WORKER.replace('/', '.')}." in first.routing_key


async def test_a_group_is_told_of_without_a_task(life: Life):
    task_id = await life.create(taskGroupId=slugid(), routes=["other"])
    await life.act(task_id, Cancel(force=True))
    *_, end = await life.events(task_id)
    assert ends(end)
    message = group_resolved(end, Group("g", "sched", 1_800_000_000_000))
    assert message.keys == ("primary.g.sched._",)
    assert msgspec.json.decode(message.body) == {
        "version": 1,
        "taskGroupId": "g",
        "schedulerId": "sched",
        "expires": "2027-01-15T08:00:00.000Z",
    }


@pytest.mark.parametrize(
    ("happening", "exchange", "beside"),
    [
        (
            GroupHappening(at=1_800_000_000_007, what="sealed"),
            Exchange.TASK_GROUP_SEALED,
            {"expires": "2027-01-15T08:00:00.000Z", "sealed": "2027-01-15T07:00:00.000Z"},
        ),
        (
            GroupHappening(at=1_800_000_000_007, what="reprioritised", priority=3, changed=7),
            Exchange.TASK_GROUP_PRIORITY_CHANGED,
            {"newPriority": "highest", "tasksAffected": 7},
        ),
    ],
)
def test_what_happens_to_a_group_as_a_whole_is_told(
    happening: GroupHappening, exchange: Exchange, beside: dict[str, Any]
):
    group = slugid()
    news = GroupNews(
        group=group,
        owner="sched",
        expires_at=1_800_000_000_000,
        sealed_at=1_799_996_400_000,
        happening=happening,
    )
    message = group_message(news)
    assert message is not None
    assert (message.exchange, message.at, message.lane) == (exchange, happening.at, group)
    assert message.keys == (f"primary.{group}.sched._",)
    assert msgspec.json.decode(message.body) == {
        "version": 1,
        "taskGroupId": group,
        "schedulerId": "sched",
        **beside,
    }
    check_body(message.exchange, message.body)
    again = group_message(news)
    assert again is not None
    assert again.id == message.id
    for other in (replace(news, group="build-7"), replace(news, owner="a b")):
        assert group_message(other) is None, "the face has no such group"


async def test_the_moves_of_an_earlier_task_of_the_same_id_are_not_told_of_this_one(life: Life):
    task_id = await life.create()
    (event,) = await life.events(task_id)
    task = await life.task(task_id)
    assert is_of(event, task)
    assert not is_of(msgspec.structs.replace(event, at=event.at - 1), task)
    assert not is_of(msgspec.structs.replace(event, task="another"), task)
