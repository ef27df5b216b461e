"""What a run may with the credentials of its task, and how long."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete
from andon.model.task import Task
from andon.service.taskcluster.trust.caller import RunOf
from andon.service.taskcluster.trust.taskcredentials import may_speak_for, run_named

from .signer import Signer
from .test_authentication import Face, on

BASE = "http://queue.test/api/queue/v1"
TASK = "AAAAAAAAQAqAAAAAAAAAAA"
OWN = (f"queue:reclaim-task:{TASK}/0", f"queue:resolve-task:{TASK}/0",
       f"queue:create-artifact:{TASK}/0")  # fmt: skip
RECLAIM = f"{BASE}/task/{TASK}/runs/0/reclaim"
FOLLOW_UP = f"{BASE}/task/BBBBBBBBQAqAAAAAAAAAAA"
LEASE = 1200
MINUTE = 60


class Claimed:
    """A task that a worker runs, and its credentials."""

    def __init__(self, face: Face, engine: LocalEngine, task: Task) -> None:
        self.face = face
        self.engine = engine
        self.task = task

    async def credentials(self, *, until: float = LEASE) -> Signer:
        run = self.task.status.runs[-1]
        made = await self.face.authentication.task_credentials(
            task_id=self.task.id,
            run_id=run.number,
            worker=run.worker,
            taken_until=round((self.face.at + until) * 1000),
            scopes=self.task.definition.scopes,
        )
        certificate = msgspec.json.decode(made.certificate)
        assert made.access_token not in repr(made)
        return Signer(made.client_id, made.access_token, certificate)


def claimed(act: Callable[[Claimed], Awaitable[None]]) -> None:
    async def run(face: Face) -> None:
        engine = LocalEngine(face.store)
        await engine.submit([Submission(id=TASK, name="x", scopes=("queue:route:a b", "last"))])
        request = ClaimRequest(
            worker="group/worker",
            token="t",
            queues=("default",),
            limit=1,
            lease_ms=LEASE * 1000,
        )
        [task] = await engine.claim(request)
        await act(Claimed(face, engine, task))

    on(run)


def signed(face: Face, signer: Signer, method: str, url: str) -> str:
    return signer.header(method, url, ts=round(face.at))


def test_the_credentials_name_the_claim_and_carry_the_scopes_of_run_and_task():
    async def act(held: Claimed) -> None:
        signer = await held.credentials()
        until = round((held.face.at + LEASE) * 1000) // 1000
        assert signer.client_id == f"task-client/{TASK}/0/on/group/worker/until/{until}"
        assert signer.certificate is not None
        assert signer.certificate["scopes"] == [*OWN, "queue:route:a b", "last"]
        assert signer.certificate["expiry"] // 1000 == until
        header = signed(held.face, signer, "POST", RECLAIM)
        caller = await held.face.asked(header, url=RECLAIM, method="POST")
        assert caller.run == RunOf(TASK, 0, "group/worker", until)
        assert caller.satisfies("last")

    claimed(act)


def test_they_hold_until_their_claim_ends():
    async def act(held: Claimed) -> None:
        signer = await held.credentials(until=LEASE)
        for after, good in ((LEASE - 1, True), (4 * MINUTE, True), (2 * MINUTE, False)):
            held.face.at += after
            header = signed(held.face, signer, "POST", RECLAIM)
            if good:
                await held.face.asked(header, url=RECLAIM, method="POST")
            else:
                assert "has expired" in await held.face.refused(header, url=RECLAIM, method="POST")

    claimed(act)


def test_they_outlive_one_turn_of_the_signing_keys_and_not_two():
    async def act(held: Claimed) -> None:
        signer = await held.credentials()
        header = signed(held.face, signer, "POST", RECLAIM)
        registry = held.face.authentication._access.registry
        await registry.rotate()
        await registry.keys("unknown")
        await held.face.asked(header, url=RECLAIM, method="POST")
        newer = await held.credentials()
        await registry.rotate()
        await registry.keys("unknown")
        assert "not good any more" in await held.face.refused(header, url=RECLAIM, method="POST")
        header = signed(held.face, newer, "POST", RECLAIM)
        await held.face.asked(header, url=RECLAIM, method="POST")

    claimed(act)


def test_the_scopes_of_the_task_end_five_minutes_after_the_run():
    async def act(held: Claimed) -> None:
        signer = await held.credentials()
        face = held.face

        async def may() -> bool:
            header = signed(face, signer, "PUT", FOLLOW_UP)
            caller = await face.asked(header, url=FOLLOW_UP, method="PUT")
            assert caller.satisfies(OWN[1])  # a repeated report is answered as the first
            return caller.satisfies("queue:route:a b")

        assert await may()
        await held.engine.report(held.task, Complete())
        assert await may()
        face.at += 4 * MINUTE
        assert await may()
        face.at += 2 * MINUTE
        assert not await may()
        header = signed(face, signer, "POST", RECLAIM)  # the route looks at the record itself
        assert (await face.asked(header, url=RECLAIM, method="POST")).satisfies("last")

    claimed(act)


def test_the_scopes_of_a_task_that_is_gone_are_gone():
    async def act(held: Claimed) -> None:
        signer = await held.credentials()
        other = Signer(
            signer.client_id.replace(TASK, "CCCCCCCCQAqAAAAAAAAAAA"),
            signer.access_token,
            signer.certificate,
        )
        # The name is signed.
        header = signed(held.face, other, "PUT", FOLLOW_UP)
        assert "not signed" in await held.face.refused(header, url=FOLLOW_UP, method="PUT")

        made = await held.face.authentication.task_credentials(
            task_id="CCCCCCCCQAqAAAAAAAAAAA",
            run_id=0,
            worker="group/worker",
            taken_until=round((held.face.at + LEASE) * 1000),
            scopes=["last"],
        )
        gone = Signer(made.client_id, made.access_token, msgspec.json.decode(made.certificate))
        header = signed(held.face, gone, "PUT", FOLLOW_UP)
        caller = await held.face.asked(header, url=FOLLOW_UP, method="PUT")
        assert not caller.satisfies("last")

    claimed(act)


def test_a_run_that_another_worker_holds_is_not_spoken_for():
    async def act(held: Claimed) -> None:
        signer = await held.credentials()
        header = signed(held.face, signer, "POST", RECLAIM)
        caller = await held.face.asked(header, url=RECLAIM, method="POST")
        assert may_speak_for(caller, TASK, 0, "group/worker")
        assert not may_speak_for(caller, TASK, 0, "group/other")
        assert not may_speak_for(caller, TASK, 1, "group/worker")
        assert not may_speak_for(caller, "other", 0, "group/worker")
        ci = await held.face.client("ci", ("*",))
        everything = await held.face.asked(signed(held.face, ci, "GET", RECLAIM), url=RECLAIM)
        assert may_speak_for(everything, TASK, 0, "group/other")

    claimed(act)


def test_nobody_else_has_such_credentials_by_naming_theirs_so():
    async def act(held: Claimed) -> None:
        ci = await held.face.client("ci", ("*",))
        name = f"task-client/{TASK}/0/on/group/worker/until/99999999999"
        signer = ci.temporary(["*"], name=name, start=held.face.at)
        header = signed(held.face, signer, "POST", RECLAIM)
        caller = await held.face.asked(header, url=RECLAIM, method="POST")
        assert caller.run is None  # it is the issuer's affair, and bound to no run

    claimed(act)


@pytest.mark.parametrize(
    "client_id",
    [
        "ci",
        "task-client/x",
        f"task-client/{TASK}/-1/on/g/w/until/1",
        f"task-client/{TASK}/0/on/g/until/1",
        f"task-client/{TASK}/0/on/g/w/x/until/1",
        f"task-client/{TASK}/0/on/g/w/until/1/",
        f"x/task-client/{TASK}/0/on/g/w/until/1",
    ],
)
def test_no_other_name_says_a_run(client_id: str):
    assert run_named(client_id) is None


def test_credentials_are_issued_side_by_side_for_one_run():
    async def act(held: Claimed) -> None:
        both = await asyncio.gather(held.credentials(), held.credentials(until=LEASE * 2))
        for signer in both:
            header = signed(held.face, signer, "POST", RECLAIM)
            await held.face.asked(header, url=RECLAIM, method="POST")

    claimed(act)
