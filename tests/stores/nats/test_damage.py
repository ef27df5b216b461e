"""Whoever meets a record that does not decode sets it aside, and the log says so."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
import pytest
from msgspec import Raw
from msgspec.structs import replace
from servers import Servers

from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Delete
from andon.model.words import Event, State
from andon.stores.kit.codec import encode
from andon.stores.nats import NatsStore
from andon.stores.nats.record_codec import decode_record

PATIENCE_S = 60.0

Meet = Callable[[LocalEngine], Awaitable[None]]


async def claim(engine: LocalEngine) -> None:
    request = ClaimRequest(worker="w", token="c", queues=("default",), limit=1, lease_ms=9_000)
    assert [task.id for task in await engine.claim(request)] == ["good"]


async def claim_behind_a_limit(engine: LocalEngine) -> None:
    await engine.configure_queue("default", {"max_concurrent": 5})
    await claim(engine)


async def delete(engine: LocalEngine) -> None:
    [acted] = await engine.act(["bad"], Delete())
    assert acted.error is None


async def wait_for_the_timer(engine: LocalEngine) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await engine.store.events("")).events[-1].event is not Event.SET_ASIDE:
            due = await engine.store.take_due(0, 10, 1_000)
            assert not due.tasks
            await asyncio.sleep(0.02)


async def damage(url: str, part: str) -> None:
    """Make the definition or the status of `bad` nonsense."""
    host, _, namespace = url.removeprefix("nats://").partition("?namespace=")
    client = await nats.connect(f"nats://{host}")
    try:
        stream, tasks = f"ANDON_{namespace}_0", f"andon.{namespace}.0.t.*.bad.>"
        found = await client.jetstream().get_last_msg(stream, tasks)
        kept = {k: v for k, v in (found.headers or {}).items() if k.startswith("Nats-Schedule")}
        assert found.subject is not None
        assert found.data is not None
        nonsense = Raw(encode("nonsense"))
        body = replace(decode_record(found.data), **{part: nonsense})
        await client.jetstream().publish(found.subject, encode(body), headers=kept)
    finally:
        await client.close()


@pytest.mark.parametrize("part", ["definition", "status"])
@pytest.mark.parametrize(
    ("meet", "source"),
    [
        (claim, State.PENDING),
        (claim_behind_a_limit, State.PENDING),
        (delete, State.PENDING),
        (wait_for_the_timer, State.SCHEDULED),
    ],
)
def test_who_meets_a_damaged_record_sets_it_aside_and_the_log_keeps_what_is_legible(
    servers: Servers, tmp_path: Path, meet: Meet, source: State, part: str
) -> None:
    url = servers.fresh_url("nats", tmp_path)

    async def course() -> None:
        engine = LocalEngine(NatsStore(url))
        await engine.open()
        try:
            run_at = engine.now() + 500 if source is State.SCHEDULED else None
            bad = Submission(id="bad", name="job", run_at=run_at)
            outcomes = await engine.submit([bad, Submission(id="good", name="job")])
            assert [outcome.error for outcome in outcomes] == [None, None]
            await damage(url, part)
            await meet(engine)
            events = (await engine.store.events("")).events
            moves = [event for event in events if event.task == "bad"]
            expected = [Event.SUBMIT] if part == "definition" else []
            expected += [Event.SET_ASIDE, *([Event.DELETE] if meet is delete else [])]
            assert [move.event for move in moves] == expected
            aside = next(move for move in moves if move.event is Event.SET_ASIDE)
            assert (aside.revision, aside.source, aside.target) == (2, source, State.UNKNOWN)
            if meet is not delete:
                assert list((await engine.history("bad")).events) == moves
                [found] = await engine.get(["bad"])
                assert found is not None
                assert (found.state, found.status.revision) == (State.UNKNOWN, 2)
        finally:
            await engine.close()

    asyncio.run(course())
