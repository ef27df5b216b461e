"""`HttpEngine`: an item that cannot be sent, or that the service refuses, fails alone
(docs/rulings.md, R36)."""

import asyncio
from typing import Any

import pytest
from tests.service.kit import Running, serving

from andon import Andon
from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.engine.base import Submission
from andon.lifecycle.commands import Complete, Fail, Snooze
from andon.model.errors import AndonError, InvalidSubmission, PayloadTooLarge
from andon.model.task import RunCell, Task, TaskError
from andon.model.words import State

from .test_engine import claim, engine_at, task

HALF = "half \ud800 of a character"
PLACES = pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "middle", "last"])


def among(place: int, bad: Any, *good: Any) -> list[Any]:
    return [*good[:place], bad, *good[place:]]


BAD: dict[str, dict[str, Any]] = {
    "text": {"tags": (HALF,)},
    "nul": {"key": "a\0b"},
    "no json": {"args": b"{"},
    "too large": {"args": b'"' + b"x" * 300_000 + b'"'},
    "time": {"run_at": 2**63},
    "name": {"queue": "a b"},
}


@PLACES
@pytest.mark.parametrize("bad", BAD)
async def test_a_submission(running: Running, bad: str, place: int):
    async with engine_at(running.url) as engine:
        wrong = task("bad", **BAD[bad])
        outcomes = await engine.submit(among(place, wrong, task("a"), task("b")))
        refused = outcomes.pop(place)
        assert isinstance(refused.error, InvalidSubmission)
        assert refused.id == "bad"
        assert [(one.id, one.created) for one in outcomes] == [("a", True), ("b", True)]
        assert await engine.get(["bad"]) == [None]


@PLACES
async def test_a_submission_of_many_that_ask_at_once(running: Running, place: int):
    async with engine_at(running.url) as engine:
        wrong = task("bad", tags=(HALF,))
        asked = among(place, wrong, task("a"), task("b"))
        done = await asyncio.gather(*(engine.submit([one]) for one in asked))
        [refused] = done.pop(place)
        assert isinstance(refused.error, InvalidSubmission)
        assert all(outcome.created for [outcome] in done)


@PLACES
async def test_a_submission_among_some_that_depend_on_one_another(running: Running, place: int):
    async with engine_at(running.url) as engine:
        good = (task("a"), task("b", dependencies=("a",)))
        outcomes = await engine.submit(among(place, task("bad", tags=(HALF,)), *good))
        assert isinstance(outcomes.pop(place).error, InvalidSubmission)
        assert [one.state for one in outcomes] == [State.PENDING, State.BLOCKED]


@PLACES
async def test_a_request_that_is_too_large_for_the_service(tmp_path: Any, place: int):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, max_body=100_000) as running:
        async with engine_at(running.url) as engine:
            large = b'"' + b"x" * 90_000 + b'"'
            asked = among(place, task("bad", args=large), task("a"), task("b"))
            outcomes = await engine.submit(asked)
            assert isinstance(outcomes.pop(place).error, PayloadTooLarge | InvalidSubmission)
            assert [(one.id, one.created) for one in outcomes] == [("a", True), ("b", True)]


async def three(engine: Any) -> list[Task]:
    await engine.submit([task(one) for one in "abc"])
    return sorted(await claim(engine), key=lambda held: held.id)


@PLACES
@pytest.mark.parametrize(
    ("message", "progress"), [(HALF, 1), ("", 101), ("", 2**70)], ids=["text", "101", "2**70"]
)
@pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])
async def test_a_renewal(
    running: Running, message: str, progress: int, place: int, *, blocking: bool
):
    async with engine_at(running.url) as engine:
        held = await three(engine)
        signs = [
            Renewal(
                task=one.id,
                run=one.status.run,
                lease_ms=5_000,
                progress=progress if n == place else 7,
                message=message if n == place else "fine",
            )
            for n, one in enumerate(held)
        ]
        if blocking:
            verdicts = await asyncio.to_thread(engine.renew_blocking, signs)
        else:
            verdicts = await engine.renew(signs)
        assert verdicts.pop(place) is Verdict.INVALID
        assert verdicts == [Verdict.OK, Verdict.OK]
        assert await engine.report(held[place], Complete()) is State.COMPLETED


@PLACES
@pytest.mark.parametrize(
    "command",
    [
        Fail(error=TaskError(message=HALF)),
        Snooze(delay=10**20),
        Complete(result=b"{"),
        Complete(result=b'"' + b"x" * 300_000 + b'"'),
    ],
    ids=["text", "delay", "json", "large"],
)
async def test_a_report(running: Running, command: Any, place: int):
    async with engine_at(running.url) as engine:
        held = await three(engine)
        commands = [command if n == place else Complete(result=b"1") for n in range(3)]

        async def told(one: Task, what: Any) -> Any:
            try:
                return await engine.report(one, what)
            except AndonError as error:
                return error

        done = await asyncio.gather(*map(told, held, commands))
        assert isinstance(done.pop(place), InvalidSubmission)
        assert done == [State.COMPLETED, State.COMPLETED]
        assert await engine.report(held[place], Complete()) is State.COMPLETED


async def test_a_report_whose_progress_cannot_be_is_refused(running: Running):
    async with engine_at(running.url) as engine:
        [held, *_] = await three(engine)
        assert held.cell is not None
        held.cell = RunCell(
            run=held.cell.run, lease_until=held.cell.lease_until, heartbeat_at=-1, progress=2**70
        )
        with pytest.raises(InvalidSubmission):
            await engine.report(held, Complete())


def test_a_repeat_in_halves_says_what_the_first_said() -> None:
    """Groups are halved only when the service refused the whole: nothing of it was stored then, so
    what is created is told as created."""
    from andon.engine.http import wire

    good, bad = wire.packed([Submission(id="a", name="n"), Submission(id="b", name=HALF)])
    assert [one.place for one in good] == [0]
    assert list(bad) == [1]
    assert wire.body_of(good).startswith(b'[{"id":"a"')
