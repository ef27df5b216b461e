"""Everybody who asks a Taskcluster queue for something, all at once and at random: who creates
tasks, who works, who meddles, who closes groups. What they are answered is in the account."""

import asyncio
import random
from typing import Any
from urllib.parse import quote

from .kit import HOUR, at, definition, slugid
from .persistent import Account, Persistent

QUEUE = "crash/tests"
CLAIM_TIMEOUT_S = 1.5
WORKERS = 4
CREATORS = 2
ENDED = {"completed", "failed", "exception"}
REPORTS = {
    "completed": ("reportCompleted", "completed", None),
    "failed": ("reportFailed", "failed", None),
    **{
        reason: ("reportException", "exception", {"reason": reason})
        for reason in (
            "worker-shutdown",
            "intermittent-task",
            "malformed-payload",
            "resource-unavailable",
            "internal-error",
        )
    },
}
"""Method, path and body of a report, by the reason that the run has from then on."""

METHODS = (
    "createTask",
    "claimWork",
    "reclaimTask",
    "reportCompleted",
    "reportFailed",
    "reportException",
    "cancelTask",
    "rerunTask",
    "scheduleTask",
    "createArtifact",
    "upload",
    "sealTaskGroup",
    "cancelTaskGroup",
)
"""Whatever changes something: in the middle of each of these the service is killed."""


class Crowd:
    """Everybody, until told to stop; workers go on until there is nothing left to do."""

    def __init__(self, client: Persistent, account: Account, rng: random.Random) -> None:
        self.client, self.account, self.rng = client, account, rng
        self.is_over = False  #: nothing new is created, and nothing meddled with
        self.is_drained = False  #: workers may go
        self._open = slugid()
        """The group that tasks are created in until somebody seals it."""

    async def create(self) -> None:
        """Create tasks, some of which wait for others."""
        rng, account = self.rng, self.account
        while not self.is_over:
            group, known = self._open, list(account.created)[-10:]
            task_id = slugid()
            task = definition(
                taskQueueId=QUEUE,
                taskGroupId=group,
                retries=40,
                deadline=at(HOUR),
                dependencies=rng.sample(known, min(len(known), rng.choice((0, 0, 0, 1, 2)))),
                requires=rng.choice(("all-completed", "all-resolved")),
                payload={"bytes": "x" * rng.randrange(3_000)},
            )
            good = (409,) if group in account.sealed else (200, 409)
            answer = await self.client.ask("createTask", "PUT", f"/task/{task_id}", task, good=good)
            if answer.status_code == 200:
                account.created[task_id] = task
                account.members.setdefault(group, []).append(task_id)
            else:
                assert "sealed" in answer.text, answer.text
                account.refused.append(task_id)
                if self._open == group:
                    self._open = slugid()
            if len(account.members.get(group, ())) >= 12 and self._open == group:
                self._open = slugid()
            await asyncio.sleep(rng.random() * 0.1)

    async def work(self, name: str) -> None:
        """Claim, say what the run leaves behind, report: now and then too late, or never."""
        body = {"workerGroup": "crash", "workerId": name, "tasks": 2}
        path = f"/claim-work/{quote(QUEUE, safe='')}"
        while not self.is_drained:
            answer = await self.client.ask("claimWork", "POST", path, body)
            for claim in answer.json()["tasks"]:
                task_id, run = claim["status"]["taskId"], claim["runId"]
                assert claim["workerId"] == name
                self.account.handed[task_id, run] += 1
                await self._run(task_id, run)

    async def _run(self, task_id: str, number: int) -> None:
        rng = self.rng
        path = f"/task/{task_id}/runs/{number}"
        await asyncio.sleep(rng.random() * 0.05)
        fate = 1.0 if self.is_over else rng.random()
        if fate < 0.05:
            return  # its claim runs out
        if fate < 0.1:
            await asyncio.sleep(CLAIM_TIMEOUT_S * 1.2)
        holds = True
        if rng.random() < 0.4:
            answer = await self.client.ask(
                "reclaimTask", "POST", f"{path}/reclaim", good=(200, 409)
            )
            holds = answer.status_code == 200
        if rng.random() < 0.5:
            await self._leave(task_id, number)
        reason = "completed" if self.is_over or rng.random() < 0.4 else rng.choice([*REPORTS])
        method, verb, body = REPORTS[reason]
        good = (200, 409) if holds else (409,)
        answer = await self.client.ask(method, "POST", f"{path}/{verb}", body, good=good)
        kept = self.account.accepted if answer.status_code == 200 else self.account.denied
        kept[task_id, number] = reason

    async def _leave(self, task_id: str, number: int) -> None:
        """A file, or an entry without one. A run that did not report may, also after its end."""
        rng, account = self.rng, self.account
        base = f"/task/{task_id}/runs/{number}/artifacts"
        expires = at(HOUR / 2)
        name = f"public/{rng.randrange(1_000)}.log"
        place = (task_id, number, name)
        entry: dict[str, Any] = {
            "s3": {"contentType": "text/plain"},
            "reference": {"contentType": "text/plain", "url": "https://example.com/a"},
            "error": {"reason": "file-missing-on-worker", "message": "it is not there"},
        }
        kind = rng.choice(["s3", "s3", "reference", "error"])
        body = {"storageType": kind, "expires": expires, **entry[kind]}
        url = f"{base}/{quote(name, safe='')}"
        made = (await self.client.ask("createArtifact", "POST", url, body)).json()
        account.entries[place] = kind
        if kind == "s3":
            sent = rng.randbytes(rng.choice((1, 1_000, 900_000)))
            await self.client.ask("upload", "PUT", made["putUrl"], content=sent)
            account.files[place] = sent

    async def meddle(self) -> None:
        """Cancel, rerun and schedule whatever there is."""
        while not self.is_over:
            if some := list(self.account.created)[-60:]:
                task_id, verb = (
                    self.rng.choice(some),
                    self.rng.choice(["cancel", "rerun", "schedule"]),
                )
                good = (200, 409) if verb == "rerun" else (200,)  # 409: it has had 50 runs
                answer = await self.client.ask(
                    f"{verb}Task", "POST", f"/task/{task_id}/{verb}", good=good
                )
                if verb == "cancel":  # nobody else reruns
                    assert answer.json()["status"]["state"] in ENDED, answer.text
            await asyncio.sleep(self.rng.random() * 0.1)

    async def close(self) -> None:
        """Seal groups, also while tasks are created in them, and cancel some of those."""
        account = self.account
        while not self.is_over:
            if groups := [g for g in account.members if g not in account.sizes]:
                group = self.rng.choice(groups[-3:])
                answer = (
                    await self.client.ask("sealTaskGroup", "POST", f"/task-group/{group}/seal")
                ).json()
                assert account.sealed.setdefault(group, answer["sealed"]) == answer["sealed"]
                if self.rng.random() < 0.6:
                    answer = (
                        await self.client.ask(
                            "cancelTaskGroup", "POST", f"/task-group/{group}/cancel"
                        )
                    ).json()
                    account.sizes[group] = answer["taskGroupSize"]
                if self._open == group and self.rng.random() < 0.7:  # else they find it sealed
                    self._open = slugid()
            await asyncio.sleep(self.rng.random() * 0.1)
