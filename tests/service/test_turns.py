"""Large requests leave the others their turn."""

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import httpx
import msgspec
import pytest

from andon import Andon
from andon.engine.base import Submission, Submitted
from andon.model.words import State
from andon.service.calls import Call
from andon.service.decoding import LARGE
from andon.service.service import Service
from andon.service.settings import Settings
from andon.service.submitting import submit_as_given
from andon.service.trust.access import OPEN

from .kit import Running, problem

JSON = {"Content-Type": "application/json"}
MANY = 10_000


@contextmanager
def stalls(running: Running) -> Iterator[list[float]]:
    """How long the loop's thread worked without a turn for others: seconds of CPU, each turn's."""
    turns: list[float] = []
    over = asyncio.Event()

    async def tick() -> None:
        last = time.thread_time()
        while not over.is_set():
            await asyncio.sleep(0)
            now = time.thread_time()
            turns.append(now - last)
            last = now

    async def begin() -> "asyncio.Task[None]":
        return asyncio.ensure_future(tick())

    async def end(ticking: "asyncio.Task[None]") -> None:
        over.set()
        await ticking

    gc.collect()
    gc.disable()  # the garbage of the other tests is none of the service's
    ticking = running.call(begin())
    try:
        yield turns
    finally:
        running.call(end(ticking))
        gc.enable()


@pytest.mark.slow
def test_decoding_the_largest_bulk_submit_leaves_others_their_turn(
    service: Running, http: httpx.Client
):
    def body(of: int) -> bytes:
        args = msgspec.json.encode({"a": "x" * 1_800})
        return msgspec.json.encode(
            [Submission(id=f"{of}-{n}", name="unknown", args=args) for n in range(MANY)]
        )

    decoder = msgspec.json.Decoder(list[Submission])
    longest: list[float] = []
    at_once: list[float] = []
    for of in range(3):
        large = body(of)
        with stalls(service) as turns:
            sent = http.post("/api/v1/engine/submit", content=large, headers=JSON)
        assert sent.status_code == 200
        longest.append(max(turns))
        began = time.thread_time()
        decoder.decode(large)
        at_once.append(time.thread_time() - began)
    # Not a number of milliseconds, for machines differ: one turn is less than decoding alone is.
    assert min(longest) < min(at_once)


TASKS = [{"name": "unknown", "args": {"a": n}} for n in range(20)]


@pytest.mark.parametrize("padding", [0, LARGE])
@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"args": []}, "tasks[20].name"),
        ({"name": 5}, "tasks[20].name"),
        ({"name": "n", "colour": 1}, "tasks[20].colour"),
        ({"name": "n", "tags": [1]}, "tasks[20].tags[0]"),
        (7, "tasks[20]"),
    ],
)
def test_an_entry_is_refused_alike_in_small_and_large_bodies(
    http: httpx.Client, entry: Any, field: str, padding: int
):
    sent = msgspec.json.encode({"tasks": [*TASKS, entry, *TASKS]}) + b" " * padding
    answer = http.post("/api/v1/bulk", content=sent, headers=JSON).json()
    assert (answer["accepted"], answer["refused"]) == (40, 1)
    assert answer["tasks"][20]["error"]["status"] == 422
    assert answer["tasks"][20]["error"]["field"] == field


@pytest.mark.parametrize("padding", [0, LARGE])
@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"tasks": 7}, 422, "tasks"),
        ({"tasks": [], "colour": 1}, 422, "colour"),
        ({}, 422, "tasks"),
    ],
)
def test_what_is_wrong_is_told_alike_of_small_and_large_bodies(
    http: httpx.Client, body: dict[str, Any], status: int, field: str, padding: int
):
    sent = msgspec.json.encode(body) + b" " * padding
    refused = problem(
        http.post("/api/v1/bulk", content=sent, headers=JSON), status, "invalid-request"
    )
    assert refused["field"] == field


@pytest.mark.parametrize("padding", [0, LARGE])
def test_an_entry_that_is_no_json_within_is_refused_alone(http: httpx.Client, padding: int):
    sent = b'{"tasks": [{"name": "a", "args": 1}, {"name": "b\xff"}]}' + b" " * padding
    answer = http.post("/api/v1/bulk", content=sent, headers=JSON).json()
    assert [one["created"] for one in answer["tasks"]] == [True, False]
    assert answer["tasks"][1]["error"]["status"] == 400
    assert len(http.get("/api/v1/tasks").json()["tasks"]) == 1


def test_a_bound_on_a_list_holds_for_large_bodies_too(http: httpx.Client):
    sent = msgspec.json.encode({"runs": [{"token": "x" * 200}] * 1_001})
    assert len(sent) > LARGE
    refused = http.post("/api/v1/runs/renew", content=sent, headers=JSON)
    assert problem(refused, 422, "invalid-request")["field"] == "runs"


def test_slices_of_requests_at_once_are_not_begun_in_the_same_turn(app: Andon):
    service = Service(app, Settings(port=0))
    turn = 0
    begun: list[int] = []

    class Resolver:
        def queue_of(self, submission: Submission) -> str:
            return submission.queue or "default"

    class Engine:
        resolver = Resolver()

        async def submit(self, submissions: Sequence[Submission]) -> list[Submitted]:
            begun.append(turn)
            return [Submitted(one.id, State.PENDING, created=True) for one in submissions]

    service.engine = cast("Any", Engine())
    request = Call(cast("Any", {}), cast("Any", None), cast("Any", None))
    request.service, request.caller = service, OPEN

    async def scenario() -> None:
        nonlocal turn
        requests = [
            asyncio.ensure_future(
                submit_as_given(
                    request, [Submission(id=f"{of}-{n}", name="n") for n in range(1_000)]
                )
            )
            for of in range(4)
        ]
        while not all(one.done() for one in requests):
            turn += 1
            await asyncio.sleep(0)
        for of, one in enumerate(requests):
            assert [done.id for done in one.result()] == [f"{of}-{n}" for n in range(1_000)]

    asyncio.run(scenario())
    assert len(begun) == 20
    assert len(set(begun)) == 20
