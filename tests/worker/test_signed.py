"""A worker with trusted keys runs what was signed with one of them, as it was signed."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from andon.engine.base import Submission
from andon.lifecycle.apply import is_dead_letter
from andon.lifecycle.commands import Rerun
from andon.model.errors import ConfigurationError
from andon.model.headers import SIGNATURE_HEADER
from andon.model.task import Task
from andon.model.words import Event, Reason, State
from andon.signing import SigningKey, TrustedKeys
from andon.worker.calls import Call
from andon.worker.control import Retry

from . import children
from .kit import Kit, error_of, last_run, result_of

KEY, NEXT_KEY, STRANGER = (SigningKey.generate() for _ in range(3))
TRUSTED = TrustedKeys([KEY.public])


def asked(task_id: str, name: str, args: Any, **more: Any) -> Submission:
    more.setdefault("options", {"max_retries": 3, "retry_delay": None})
    return Submission(id=task_id, name=name, args=msgspec.json.encode(args), **more)


def signed(submission: Submission, key: SigningKey = KEY, now: int = 0) -> Submission:
    header = key.sign(submission, now)
    return replace(submission, headers={**submission.headers, SIGNATURE_HEADER: header})


async def stored(kit: Kit, *submissions: Submission) -> None:
    """Submit in one call, so that one claim gets them all."""
    for outcome in await kit.local.submit(submissions):
        assert outcome.error is None, outcome.error


def refused(task: Task, code: str) -> None:
    """The task failed for its signature, at once, in one run that nobody retries."""
    assert error_of(task) == (State.FAILED, Reason.SIGNATURE_REFUSED, code)
    assert last_run(task) == (Event.REJECT, Reason.SIGNATURE_REFUSED)
    assert len(task.status.runs) == 1
    assert is_dead_letter(task, task.status)


def counting(kit: Kit) -> list[str]:
    """A handler `note`, and what it has noted."""
    noted: list[str] = []

    async def note(text: str) -> str:
        noted.append(text)
        return text

    kit.add(note)
    return noted


async def test_what_is_signed_with_a_trusted_key_runs(kit: Kit):
    noted = counting(kit)
    await stored(kit, signed(asked("a", "note", ["yes"], headers={"tenant": "acme"})))
    await kit.start(trusted_keys=TRUSTED)
    assert result_of(await kit.end("a")) == "yes"
    assert noted == ["yes"]


async def test_what_is_not_signed_fails_before_any_code_of_the_users(kit: Kit):
    touched: list[str] = []

    class Codec(Call):
        def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
            touched.append("codec")
            return super().decode(payload)

    class Middleware:
        async def around(self, context: Any, call_next: Any) -> Any:
            touched.append("middleware")
            return await call_next()

    async def note(text: str) -> None:
        touched.append("handler")

    task_type = kit.add(note)
    object.__setattr__(task_type, "codec", Codec(note))
    await stored(kit, asked("a", "note", ["no"]))
    await kit.start(trusted_keys=TRUSTED, middleware=[Middleware()])
    refused(await kit.end("a"), "SIGNATURE_MISSING")
    assert touched == []
    await stored(kit, signed(asked("b", "note", ["yes"])))
    await kit.end("b")
    assert touched == ["middleware", "codec", "handler"]


ALTERED: list[dict[str, Any]] = [
    {"id": "other"},
    {"name": "other"},
    {"queue": "side"},
    {"version": 1},
    {"args": b'["altered"]'},
    {"args": b'[ "yes" ]'},
    {"scopes": ("admin:storage",)},
    {"tags": ("b",)},
    {"group": "g"},
    {"key": "k"},
    {"unique_key": "u"},
    {"load_dependencies": True},
    {"requires": "all-resolved"},
]


@pytest.mark.parametrize("altered", ALTERED, ids=[f"{[*a]}{[*a.values()]}" for a in ALTERED])
async def test_what_was_altered_after_it_was_signed_is_refused(kit: Kit, altered: dict[str, Any]):
    noted = counting(kit)
    kit.add(kit.registry.get("note").handler, name="other")  # type: ignore[union-attr]
    kit.add(kit.registry.get("note").handler, name="note", version=1)  # type: ignore[union-attr]
    task = replace(signed(asked("a", "note", ["yes"])), **altered)
    await stored(kit, task)
    await kit.start(trusted_keys=TRUSTED, queues=("default", "side"))
    refused(await kit.end(task.id), "SIGNATURE_INVALID")
    assert noted == []


async def test_a_header_that_was_added_is_seen_and_that_of_a_trace_is_not_looked_at(kit: Kit):
    noted = counting(kit)
    one, other = (signed(asked(name, "note", [name])) for name in ("one", "other"))
    await stored(
        kit,
        replace(one, headers={**one.headers, "tenant": "evil"}),
        replace(other, headers={**other.headers, "traceparent": "00-1-2-3"}),
    )
    await kit.start(trusted_keys=TRUSTED)
    refused(await kit.end("one"), "SIGNATURE_INVALID")
    assert result_of(await kit.end("other")) == "other"
    assert noted == ["other"]


async def test_priority_times_and_policy_may_be_changed_by_who_does_not_sign(kit: Kit):
    counting(kit)
    task = signed(asked("a", "note", ["yes"], queue="default"))
    await stored(kit, replace(task, priority=3, delay=0.01, options={"max_retries": 0}))
    await kit.start(trusted_keys=TRUSTED)
    kit.local.keep_time()
    assert result_of(await kit.end("a")) == "yes"


async def test_of_one_claim_only_the_bad_are_refused(kit: Kit):
    noted = counting(kit)
    good = [signed(asked(f"good-{n}", "note", [f"good-{n}"])) for n in range(4)]
    await stored(
        kit,
        asked("unsigned", "note", ["no"]),
        *good[:2],
        signed(asked("stranger", "note", ["no"]), STRANGER),
        replace(good[0], id="copied"),
        *good[2:],
        asked("garbled", "note", ["no"], headers={SIGNATURE_HEADER: "v1.ab\x01c"}),
    )
    await kit.start(trusted_keys=TRUSTED)
    for task in good:
        assert result_of(await kit.end(task.id)) == task.id
    refused(await kit.end("unsigned"), "SIGNATURE_MISSING")
    refused(await kit.end("stranger"), "SIGNATURE_KEY_UNKNOWN")
    refused(await kit.end("copied"), "SIGNATURE_INVALID")
    refused(await kit.end("garbled"), "SIGNATURE_MALFORMED")
    assert sorted(noted) == [task.id for task in good]


async def test_keys_take_over_from_one_another_and_one_that_is_taken_away_is_gone(kit: Kit):
    counting(kit)
    old, new = asked("old", "note", ["old"]), asked("new", "note", ["new"])
    await stored(kit, signed(old, KEY), signed(new, NEXT_KEY))
    both = await kit.start(trusted_keys=TrustedKeys([KEY.public, NEXT_KEY.public]))
    assert result_of(await kit.end("old")) == "old"
    assert result_of(await kit.end("new")) == "new"
    await both.stop()
    await kit.start(trusted_keys=TrustedKeys([NEXT_KEY.public]))
    late = replace(old, id="late")
    await stored(kit, signed(late, KEY), signed(replace(new, id="again"), NEXT_KEY))
    assert result_of(await kit.end("again")) == "new"
    refused(await kit.end("late"), "SIGNATURE_KEY_UNKNOWN")


async def test_a_retry_and_a_rerun_are_of_the_same_signed_task(kit: Kit):
    tries: list[int] = []

    async def flaky() -> int:
        tries.append(len(tries))
        if len(tries) == 1:
            raise Retry(delay=0)
        return len(tries)

    kit.add(flaky)
    await stored(kit, signed(asked("a", "flaky", [])))
    await kit.start(trusted_keys=TRUSTED)
    kit.local.keep_time()
    assert result_of(await kit.end("a")) == 2
    await kit.local.act(["a"], Rerun())
    assert result_of(await kit.end("a")) == 3


async def test_a_refused_task_can_be_run_again_where_its_key_is_trusted(kit: Kit):
    noted = counting(kit)
    await stored(kit, signed(asked("a", "note", ["yes"]), NEXT_KEY))
    strict = await kit.start(trusted_keys=TRUSTED)
    refused(await kit.end("a"), "SIGNATURE_KEY_UNKNOWN")
    await strict.stop()
    await kit.start(trusted_keys=TrustedKeys([NEXT_KEY.public]))
    await kit.local.act(["a"], Rerun())
    assert result_of(await kit.end("a")) == "yes"
    assert noted == ["yes"]


async def test_a_signature_that_held_for_a_time_starts_no_run_after_it(kit: Kit):
    counting(kit)
    key = SigningKey.generate()
    now = kit.local.now()
    hour = SigningKey(key._private, valid_for=3600)  # type: ignore[attr-defined]
    await stored(
        kit,
        signed(asked("fresh", "note", ["fresh"]), hour, now),
        signed(asked("stale", "note", ["stale"]), hour, now - 3_600_001),
    )
    await kit.start(trusted_keys=TrustedKeys([key.public]))
    assert result_of(await kit.end("fresh")) == "fresh"
    refused(await kit.end("stale"), "SIGNATURE_EXPIRED")


async def test_a_worker_without_trusted_keys_asks_for_no_signature(kit: Kit):
    counting(kit)
    await stored(kit, asked("a", "note", ["a"]), signed(asked("b", "note", ["b"]), STRANGER))
    await kit.start()
    assert result_of(await kit.end("a")) == "a"
    assert result_of(await kit.end("b")) == "b"


async def test_a_worker_tells_which_keys_it_asks_for(kit: Kit):
    await kit.start(trusted_keys=TRUSTED, id="strict")
    await kit.start(id="open")
    async with asyncio.timeout(20):
        while len(told := await kit.local.workers()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert {one.id: one.trusts for one in told} == {"strict": (KEY.key_id,), "open": ()}


@pytest.mark.parametrize("how", ["async", "thread", "process", "command"])
async def test_each_kind_of_handler_is_kept_from_what_is_not_signed(
    kit: Kit, how: str, tmp_path: Path
):
    trace = tmp_path / "trace"
    settings: dict[str, Any] = {"trusted_keys": TRUSTED}
    if how == "process":
        kit.registry = children.registry
        settings["app"] = f"{children.__name__}:registry"
        name = "leaves_trace"
    elif how == "command":
        name = "program"
        script = "import json,sys; open(json.load(sys.stdin)[0], 'a').write('x')"
        argv = (sys.executable, "-S", "-c", script)
        kit.add(None, name=name, kind="command", argv=argv)
    else:
        name = "leave"

        def leave(path: str) -> None:
            with Path(path).open("a") as file:
                file.write("x")

        async def leave_async(path: str) -> None:
            leave(path)

        kit.add(leave_async if how == "async" else leave, name=name)
    good = signed(asked("good", name, [str(trace)]))
    await stored(kit, asked("bad", name, [str(trace)]), replace(good, id="altered"), good)
    await kit.start(**settings)
    assert (await kit.end("good")).state is State.COMPLETED
    refused(await kit.end("bad"), "SIGNATURE_MISSING")
    refused(await kit.end("altered"), "SIGNATURE_INVALID")
    assert trace.read_text() == "x"


def test_no_trusted_key_at_all_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="every task would be refused"):
        TrustedKeys([])
