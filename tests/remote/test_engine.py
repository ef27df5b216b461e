"""`HttpEngine`: what a local engine promises, and the errors that a local engine raises."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ports import free_port
from tests.service.kit import Running

from andon import Andon
from andon.contract.outcomes import Verdict
from andon.contract.queries import Query
from andon.contract.requests import ClaimRequest, Renewal
from andon.contract.topics import ready_topic
from andon.engine.base import Submission
from andon.engine.http.engine import HttpEngine
from andon.engine.http.errors import NAMES, URN, error_of, error_of_document, problem_of
from andon.engine.http.transport import Transport
from andon.lifecycle.commands import Complete, Delete, Fail, RunNow
from andon.model import errors
from andon.model.errors import (
    AndonError,
    AuthenticationFailed,
    GroupRefused,
    InvalidSubmission,
    InvalidTransition,
    LeaseLost,
    PermissionRefused,
    StoreIncompatible,
    StoreUnavailable,
    TaskConflict,
    TaskNotFound,
    UniqueKeyHeld,
    WorkerNotFound,
)
from andon.model.fleet import TypeInfo
from andon.model.registry import RecentRun
from andon.model.task import Task, TaskError
from andon.model.words import State
from andon.service.problems import KINDS
from andon.service.problems import problem_of as shown
from andon.service.settings import Settings

from .kit import PATIENCE, until
from .proxy import LossyProxy


@asynccontextmanager
async def engine_at(url: str, **options: Any) -> AsyncIterator[HttpEngine]:
    engine = HttpEngine(url, **options)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def task(task_id: str, **fields: Any) -> Submission:
    return Submission(id=task_id, name="job", **fields)


async def claim(engine: HttpEngine, token: str = "t", **fields: Any) -> list[Task]:
    fields = {"queues": ("default",), "limit": 10, "lease_ms": 30_000, **fields}
    return await engine.claim(ClaimRequest(worker="w", token=token, **fields))


async def test_a_task_is_claimed_whole_and_resolved(running: Running):
    async with engine_at(running.url) as engine:
        [done] = await engine.submit([task("a", args=b'{"x":1}', headers={"h": "v"})])
        assert (done.state, done.created) == (State.PENDING, True)
        [held] = await claim(engine)
        [stored] = await engine.get(["a"])
        assert held == stored
        assert await engine.report(held, Complete(result=b"[1]")) is State.COMPLETED
        [ended] = await engine.get(["a"])
        assert ended is not None
        assert (ended.state, ended.result) == (State.COMPLETED, b"[1]")
        moves = (await engine.history("a")).events
        assert [str(move.event) for move in moves] == ["submit", "claim", "complete"]


async def test_a_service_that_knows_no_follow_ups_is_not_told_the_end_of_a_run_that_has_some(
    running: Running, monkeypatch: pytest.MonkeyPatch
):
    """An older service would take the report and leave them out. Other reports go on."""
    call = Transport.call

    async def older(self: Transport, method: str, body: bytes = b"{}", **how: Any) -> bytes:
        return await call(
            self, f"{method}-not-there" if "bearing" in method else method, body, **how
        )

    async with engine_at(running.url) as engine:
        await engine.submit([task("a"), task("b")])
        a, b = await claim(engine)
        with monkeypatch.context() as patch:
            patch.setattr(Transport, "call", older)
            with pytest.raises(
                StoreIncompatible, match="older release, which stores no follow-ups"
            ):
                await engine.report(a, Complete(result=b"1"), [task("borne")])
            assert await engine.report(b, Complete(result=b"1")) is State.COMPLETED
        [there] = await engine.get(["a"])
        assert there is not None
        assert there.state is State.ACTIVE
        await engine.report(a, Complete(result=b"1"), [task("borne")])
        await until(lambda: stored(engine, "borne"))


async def stored(engine: HttpEngine, task_id: str) -> bool:
    return (await engine.get([task_id]))[0] is not None


async def test_refusals_are_the_errors_of_a_local_engine(running: Running):
    async with engine_at(running.url) as engine:
        await engine.submit([task("a", args=b"1", unique_key="k")])
        [conflict] = await engine.submit([task("a", args=b"2")])
        assert isinstance(conflict.error, TaskConflict)
        assert conflict.error.task_id == "a"
        [held] = await engine.submit([task("b", unique_key="k")])
        assert isinstance(held.error, UniqueKeyHeld)
        assert held.error.holder == "a"
        [bad] = await engine.submit([task("not an id")])
        assert isinstance(bad.error, InvalidSubmission)
        assert bad.error.field == "id"
        [missing] = await engine.cancel(["nowhere"])
        assert isinstance(missing.error, TaskNotFound)
        [refused] = await engine.act(["a"], Delete())
        assert isinstance(refused.error, InvalidTransition)
        assert refused.error.state == "pending"
        with pytest.raises(TaskNotFound):
            await engine.wait_end("nowhere", PATIENCE)


def test_every_error_keeps_its_class_and_its_message():
    family = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in family:
        if not issubclass(kind, AndonError) or kind is errors.SubmissionsRefused:
            continue
        error = kind.__new__(kind)
        Exception.__init__(error, "what happened")
        back = error_of(problem_of(error))
        assert (type(back), str(back)) == (kind, "what happened")


def test_the_kinds_of_problem_that_a_service_names_are_known():
    for kind, row in KINDS.items():
        if kind is AndonError:
            continue
        assert NAMES[row.name] is kind
    told = shown(LeaseLost("t", "r")).document
    assert told["type"].startswith(URN)
    back = error_of_document(told)
    assert isinstance(back, LeaseLost)
    assert (back.task_id, back.run) == ("t", "r")


async def test_a_run_that_is_lost_can_no_longer_speak(running: Running):
    async with engine_at(running.url) as first, engine_at(running.url) as second:
        await first.submit([task("a")])
        [held] = await claim(first)
        await second.cancel(["a"], force=True)
        renewal = Renewal(task="a", run=held.status.run, lease_ms=1000)
        assert await asyncio.to_thread(first.renew_blocking, [renewal]) == [Verdict.LOST]
        with pytest.raises(LeaseLost):
            await first.report(held, Complete())


async def test_a_run_is_spoken_for_only_where_it_was_claimed(running: Running):
    async with engine_at(running.url) as first, engine_at(running.url) as second:
        await first.submit([task("a")])
        [held] = await claim(first)
        with pytest.raises(LeaseLost):
            await second.report(held, Complete())
        assert await first.report(held, Complete()) is State.COMPLETED


async def test_renewals_carry_progress_and_bring_cancel_requests(running: Running):
    async with engine_at(running.url) as engine:
        await engine.submit([task("a")])
        [held] = await claim(engine)
        renewal = Renewal(
            task="a", run=held.status.run, lease_ms=60_000, heartbeat=True, progress=40, message="m"
        )
        assert await engine.renew([renewal]) == [Verdict.OK]
        [seen] = await engine.get(["a"])
        assert seen is not None
        assert seen.cell is not None
        assert held.cell is not None
        assert (seen.cell.progress, seen.cell.message) == (40, "m")
        assert seen.cell.lease_until > held.cell.lease_until
        await engine.cancel(["a"])
        assert await asyncio.to_thread(engine.renew_blocking, [renewal]) == [Verdict.CANCEL]


async def test_the_type_policy_that_a_worker_published_counts(running: Running):
    async with engine_at(running.url) as engine:
        await engine.submit([task("a")])  # before anybody knew the type
        await engine.publish_types([TypeInfo(name="job", policy={"max_retries": 0})])

        async def known() -> bool:
            return bool(await engine.types())

        await until(known)
        [held] = await claim(engine)
        assert held.policy.max_retries == 0
        assert await engine.report(held, Fail(error=TaskError(message="no"))) is State.FAILED


async def test_a_waiting_claimer_is_hinted_of_each_task(running: Running):
    async with engine_at(running.url) as worker, engine_at(running.url) as client:
        with worker.listen([ready_topic("default")]) as hints:
            assert await hints.wait(PATIENCE)  # the stream has begun
            while await hints.wait(0.2):
                pass
            for n in range(5):
                waiting = asyncio.create_task(hints.wait(PATIENCE))
                await client.submit([task(f"a{n}")])
                assert await waiting  # what listens does not poll


async def test_many_are_waited_for_over_few_streams(running: Running):
    async with engine_at(running.url) as engine:
        await engine.submit([task(f"t{n}") for n in range(300)])
        waits = [asyncio.create_task(engine.wait_end(f"t{n}", PATIENCE)) for n in range(300)]
        ended = 0
        while ended < 300:
            for held in await claim(engine, token=f"c{ended}", limit=50):
                await engine.report(held, Complete(result=held.id.encode().join([b'"', b'"'])))
                ended += 1
        for n, done in enumerate(await asyncio.gather(*waits)):
            assert done.result == b'"t%d"' % n


async def test_the_result_of_a_task_that_is_discarded_at_once_is_seen(running: Running):
    async with engine_at(running.url) as engine:
        options = {"discard_states": ["completed"]}
        await engine.submit([task("a", options=options)])
        waiting = asyncio.create_task(engine.wait_end("a", PATIENCE))
        watching = engine.watch("a")
        assert (await anext(watching)).state is State.PENDING  # the stream has begun
        [held] = await claim(engine)
        assert await engine.report(held, Complete(result=b"7")) is None
        done = await waiting
        assert (done.state, done.result) == (State.COMPLETED, b"7")
        assert await engine.get(["a"]) == [None]
        await watching.aclose()  # type: ignore[attr-defined]


async def test_a_task_can_be_watched_again_after_it_has_ended(running: Running):
    async with engine_at(running.url) as engine:
        with engine.listen(["config"]):  # keeps a stream alive all the while
            await engine.submit([task("a")])
            for _ in range(3):
                waiting = asyncio.create_task(engine.wait_end("a", PATIENCE))
                [held] = await claim(engine, token=str(time.monotonic_ns()))
                await engine.report(held, Complete())
                assert (await waiting).state is State.COMPLETED
                [again] = await engine.retry(["a"])
                assert again.state is State.PENDING


async def test_events_are_followed_as_they_happen(running: Running):
    async with engine_at(running.url) as engine:
        following = engine.follow("")
        first = asyncio.ensure_future(anext(following))
        await engine.submit([task("a")])
        assert (await first).task == "a"
        await following.aclose()  # type: ignore[attr-defined]


async def test_dependencies_are_submitted_together_and_their_results_loaded(running: Running):
    async with engine_at(running.url) as engine:
        child = task("child", dependencies=("parent",), load_dependencies=True)
        done = await engine.submit([child, task("parent")])
        assert [one.state for one in done] == [State.BLOCKED, State.PENDING]
        [parent] = await claim(engine)
        await engine.report(parent, Complete(result=b"5"))

        async def unblocked() -> list[Task]:
            return await claim(engine, token=str(time.monotonic_ns()))

        held = await until(unblocked)
        results = await engine.dependency_results(held[0])
        found = results["parent"]
        assert found is not None
        assert found.result == b"5"


async def test_an_engine_opens_without_having_the_tasks_counted(
    running: Running, monkeypatch: pytest.MonkeyPatch
):
    """Where the store has no count, that would have the service read every record."""

    async def counted() -> None:
        raise AssertionError("nobody has asked for a count")

    monkeypatch.setattr(running.service.engine, "info", counted)
    monkeypatch.setattr(running.service.engine, "stats", counted)
    async with engine_at(running.url) as engine:
        assert abs(engine.now() - running.service.engine.now()) < 60_000, (
            "it knows the time at once"
        )
        assert await engine.partitions() == 1
        await engine.submit([task("a")])
        assert [held.id for held in await claim(engine)] == ["a"]


async def test_queues_workers_and_tasks_are_listed(running: Running):
    async with engine_at(running.url) as engine:
        await engine.submit([task(f"t{n}") for n in range(5)])
        await engine.configure_queue("default", {"weight": 3})
        assert [queue.weight for queue in await engine.queues()] == [3]
        [stats] = await engine.stats()
        assert stats.counts["pending"] == 5
        page = await engine.find(Query(limit=3))
        rest = await engine.find(Query(limit=3, cursor=page.cursor))
        assert [t.id for t in (*page.tasks, *rest.tasks)] == [f"t{n}" for n in range(5)]
        assert (await engine.info()).entries == 5
        assert abs(engine.now() - time.time() * 1000) < 5_000


async def test_a_service_that_is_not_there_is_a_clear_error():
    engine = HttpEngine(f"http://127.0.0.1:{free_port()}", patience=0.2)
    with pytest.raises(StoreUnavailable, match="andon serve"):
        await engine.open()


async def test_a_password_in_the_url_is_refused_without_being_repeated():
    with pytest.raises(AndonError) as refused:
        HttpEngine("http://me:secret@127.0.0.1")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "method", ["submit", "claim", "report", "renew", "cancel", "get", "publish_types"]
)
async def test_a_lost_reply_changes_nothing(running: Running, method: str):
    port = int(running.url.rpartition(":")[2])
    async with LossyProxy(port) as proxy, engine_at(proxy.url) as engine:
        proxy.lose(f"/api/v1/engine/{method}", 2)
        await engine.submit([task("a"), task("b")])
        held = await claim(engine)
        assert [one.id for one in held] == ["a", "b"]
        renewal = Renewal(task="a", run=held[0].status.run, lease_ms=30_000)
        assert await engine.renew([renewal]) == [Verdict.OK]
        await engine.publish_types([TypeInfo(name="job")])
        await engine.cancel(["b"])
        states = await asyncio.gather(*(engine.report(one, Complete()) for one in held))
        assert states == [State.COMPLETED, State.COMPLETED]
        ended = await engine.get(["a", "b"])
        assert [one.state for one in ended if one is not None] == states
        assert [len(one.status.runs) for one in ended if one is not None] == [1, 1]
        assert len(proxy.lost) == 2


async def test_an_act_whose_reply_was_lost_is_not_done_twice(running: Running):
    port = int(running.url.rpartition(":")[2])
    async with LossyProxy(port) as proxy, engine_at(proxy.url) as engine:
        await engine.submit([task("a", delay=60)])
        proxy.lose("/api/v1/engine/act")
        with pytest.raises(StoreUnavailable, match="not known whether"):
            await engine.act(["a"], RunNow())
        moves = (await engine.history("a")).events
        assert [str(move.event) for move in moves] == ["submit", "run-now"]


async def test_tokens_are_asked_for_and_never_shown(tmp_path: Any, caplog: Any):
    from tests.service.kit import serving

    from andon.service.trust.registry import Registry

    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    registry = Registry((await app.connections.engine()).store)  # type: ignore[attr-defined]
    text, _ = await registry.create("ci", ["tasks:create:mail", "tasks:read:mail"])
    await app.close()
    with serving(app, require_token=True) as running:
        async with engine_at(running.url, token=text) as engine:
            [done] = await engine.submit([task("a", queue="mail")])
            assert done.created
            with pytest.raises(PermissionRefused, match="tasks:create:other") as refused:
                await engine.submit([task("b", queue="other")])
            assert refused.value.scope == "tasks:create:other"
            with pytest.raises(PermissionRefused, match="secret:things"):
                await engine.submit([task("c", queue="mail", scopes=("secret:things",))])
            assert text not in str(refused.value)
            assert text not in repr(vars(engine.place)["url"]) + repr(engine.place)
        with pytest.raises(AuthenticationFailed):
            await HttpEngine(running.url).open()
    assert text.rpartition("_")[2] not in caplog.text


def test_a_service_for_others_is_refused_without_a_token(tmp_path: Any):
    from andon.service.service import Service

    async def start() -> None:
        app = Andon(f"sqlite:///{tmp_path}/tasks.db")
        await Service(app, Settings(host="0.0.0.0", port=0)).start()

    with pytest.raises(AndonError, match="andon token create"):
        asyncio.run(start())


async def test_what_depends_on_a_task_is_read_page_by_page(running: Running):
    async with engine_at(running.url) as engine:
        await engine.submit([task("p"), *(task(f"c{i}", dependencies=("p",)) for i in range(3))])
        page = await engine.dependents("p", limit=2)
        assert ([one.id for one in page.tasks], page.cursor) == (["c0", "c1"], "c1")
        page = await engine.dependents("p", page.cursor, 2)
        assert ([one.id for one in page.tasks], page.cursor) == (["c2"], "")
        with pytest.raises(TaskNotFound):
            await engine.dependents("absent")


async def test_a_group_is_sealed_and_refuses_with_the_error_of_a_local_engine(running: Running):
    async with engine_at(running.url) as engine:
        with pytest.raises(TaskNotFound):
            await engine.group("g")
        await engine.submit([task("a", group="g", group_owner="ci")])
        sealed = await engine.seal_group("g")
        assert sealed.sealed_at is not None
        assert await engine.group("g") == await engine.seal_group("g") == sealed
        [refused] = await engine.submit([task("b", group="g", group_owner="ci")])
        assert isinstance(refused.error, GroupRefused)
        assert (refused.error.group, refused.error.sealed_at) == ("g", sealed.sealed_at)


async def test_workers_that_only_claim_are_listed_and_quarantined(running: Running):
    async def claims() -> list[Task]:
        asked = ClaimRequest(
            worker="g/w", token="t", queues=("default",), limit=1, lease_ms=5_000, registers=True
        )
        return await running.service.engine.claim(asked)

    async with engine_at(running.url) as engine:
        await engine.submit([task("a")])
        assert [one.id for one in running.call(claims())] == ["a"]
        [worker], cursor = await engine.claiming_workers("default")
        assert (worker.worker, worker.recent, cursor) == ("g/w", (RecentRun("a", 0),), "")
        held = await engine.quarantine_worker("default", "g/w", 4_000_000_000_000, by="ann")
        assert held.quarantined_until == 4_000_000_000_000
        assert await engine.claiming_worker("default", "g/w") == held
        assert await engine.claiming_workers("default", in_quarantine=False) == ([], "")
        [queue], _ = await engine.claimed_queues()
        assert queue.queue == "default"
        with pytest.raises(WorkerNotFound):
            await engine.claiming_worker("default", "nobody")
