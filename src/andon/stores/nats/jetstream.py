"""Writes to the server and reads from it: many writes at once, each acknowledged; reads of many
messages.

A write that is not answered in time is sent again: every write is guarded or idempotent, so the
repeat finds the outcome of the first. Errors that may pass are retried for `PATIENCE_S`, then the
caller gets `StoreUnavailable`.
"""

import asyncio
import contextlib
import itertools
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import nats.errors

from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.errors import StoreIncompatible, StoreUnavailable
from andon.stores.nats.connection import Connection, Subscription
from andon.stores.nats.location import Location
from andon.stores.nats.nats_client import Handler, NatsClient, Outgoing, Reply

log = logging.getLogger("andon.nats")

PATIENCE_S = 5.0
"""How long an error that may pass (no leader, no connection, storage full) is retried. Engine and
worker also retry, and a worker that is told to stop waits for several operations."""

ATTEMPT_S = 2.0
"""How long one attempt waits for its answer before it is repeated."""

OPEN_PATIENCE_S = 15.0
NOBODY_S = 3.0
"""How long opening waits: longer, as a cluster may still be choosing leaders. If there is no answer
at all for so long, JetStream is off."""

GUARD = "Nats-Expected-Last-Subject-Sequence"
GUARDED = "Nats-Expected-Last-Subject-Sequence-Subject"
NEVER = "@at 2200-01-01T00:00:00Z"

_WRONG_SEQUENCE = frozenset({10071, 10164})

Write = tuple[str, bytes, dict[str, str] | None]
"""Subject, payload, headers."""

CONFLICT = 0
"""Instead of a sequence: the guard did not hold."""

UNSURE = -1
"""The same, but the write was sent before without an answer: the message there may be its own."""

REFUSED = -3
"""The server refuses the message because of its value, and would again."""

_AGAIN = -2
_BACKOFF = ExponentialBackoff(0.02, 1.0)
_BAD_REQUEST = 400
_JETSTREAM_OFF = frozenset({10076, 10039})


class _Problem(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Ack(msgspec.Struct):
    seq: int = 0
    error: _Problem | None = None


_decode_ack = msgspec.json.Decoder(_Ack).decode


class _Answers:
    """Writes sent together; `left` counts those without an answer."""

    __slots__ = ("answers", "future", "left")

    def __init__(self, count: int, future: "asyncio.Future[None]") -> None:
        self.answers: list[Reply | None] = [None] * count
        self.left = count
        self.future = future

    def take(self, index: int, msg: Reply) -> None:
        if self.answers[index] is None:
            self.answers[index] = msg
            self.left -= 1
            if not self.left:
                self.give_up()

    def give_up(self) -> None:
        """Stop waiting for answers."""
        if not self.future.done():
            self.future.set_result(None)


class _Reading:
    """A read whose answer is many messages and an end mark."""

    __slots__ = ("future", "messages")

    def __init__(self, future: "asyncio.Future[Reply | None]") -> None:
        self.messages: list[Reply] = []
        self.future = future

    def take(self, _index: int, msg: Reply) -> None:
        if msg.status:
            if not self.future.done():
                self.future.set_result(msg)
            return
        self.messages.append(msg)

    def give_up(self) -> None:
        """Stop waiting for the end mark."""
        if not self.future.done():
            self.future.set_result(None)


class JetStream:
    """One connection, and its inbox for answers."""

    def __init__(self, location: Location, *, name: str) -> None:
        self._location = location
        self._connection = Connection(location, name=name)
        self._connection.lost = self._lost
        self._connection.back = self._back
        self._inbox = ""
        self._rng = random.Random()
        self._numbers = itertools.count()
        self._waiting: dict[bytes, tuple[_Answers | _Reading, int]] = {}
        self.acked: dict[str, int] = {}
        self.on_written: dict[str, Callable[[Sequence[Write], Sequence[int]], None]] = {}
        """By stream, what to call with finished writes and their sequences."""
        self.most_bytes = 0  #: of one message, its headers included: the server's `max_payload`
        self.reconnected: Callable[[], None] = lambda: None
        self.troubled: Callable[[], None] = lambda: None  #: called when an operation was refused
        self.away_s = 0.0  #: how long the connection was lost, the last time it was
        self.losses = 0  #: how often the connection was lost
        self.leaving = False  #: the store is being closed: what fails now is not tried again

    @property
    def client(self) -> NatsClient:
        """The connection, perhaps lost; raises `StoreUnavailable` when the store is closed."""
        return self._connection.client

    async def connect(self) -> None:
        """Connect; try for as long as the connection's patience. Wrong credentials raise at
        once."""
        await self._connection.open()
        self.most_bytes = self.client.max_payload
        self._inbox = self.client.new_inbox()
        self._connection.subscribe(f"{self._inbox}.*", self._answer)

    def subscribe(self, subject: str, handler: Handler) -> Subscription:
        """Hand over the messages of a subject, on this connection and those that follow it."""
        return self._connection.subscribe(subject, handler)

    async def flush(self) -> None:
        """Wait until the server has taken what was sent; for two seconds at most."""
        await self._connection.flush()

    async def close(self) -> None:
        """Send what is waiting to be sent, then close. Idempotent."""
        self.leaving = True
        await self._connection.close()
        self._lost()

    def _lost(self) -> None:
        """Fail the requests of the lost connection: no answers will come."""
        self.losses += 1
        for waiting, _ in list(self._waiting.values()):
            waiting.give_up()

    def _back(self, away_s: float) -> None:
        self.away_s = away_s
        self.most_bytes = self.client.max_payload
        self.reconnected()

    def _answer(self, subject: bytes, msg: Reply) -> None:
        waiting = self._waiting.get(subject[subject.rindex(b".") + 1 :])
        if waiting is not None:
            waiting[0].take(waiting[1], msg)

    def _await(self, wanted: "_Answers | _Reading", index: int) -> str:
        token = str(next(self._numbers))
        self._waiting[token.encode()] = (wanted, index)
        return token

    # --- writing ---

    async def write(self, stream: str, writes: Sequence[Write], *, each: bool = False) -> list[int]:
        """Write all, in order. Returns per write its sequence, CONFLICT or UNSURE. A write that the
        server refuses because of its value is REFUSED if the caller asks for that (`each`), else an
        error."""
        seqs = [CONFLICT] * len(writes)
        if not writes:
            return seqs
        self._check_sizes(writes)
        open_ = list(range(len(writes)))
        deadline = time.monotonic() + PATIENCE_S
        failures, problem, guard_lost, refused = 0, "no answer", CONFLICT, ""
        while open_:
            answers = await self._send(writes, open_, deadline)
            again: list[int] = []
            for index, answer in zip(open_, answers, strict=True):
                seq, problem_here = self._judge(answer)
                if seq == _AGAIN:
                    again.append(index)
                    problem = problem_here
                elif seq == REFUSED:
                    seqs[index], refused = REFUSED, problem_here
                else:
                    seqs[index] = seq or guard_lost
            open_, guard_lost = again, UNSURE
            if open_:
                if self.leaving or time.monotonic() > deadline:
                    raise self.unavailable(problem)
                failures += 1
                await asyncio.sleep(_BACKOFF.pause(failures, self._rng))
        newest = max(seqs)
        if newest > self.acked.get(stream, 0):
            self.acked[stream] = newest
        if stream in self.on_written:
            self.on_written[stream](writes, seqs)
        if refused and not each:
            raise StoreIncompatible(f"{self._location.shown} refuses a write: {refused}.")
        return seqs

    def _check_sizes(self, writes: Sequence[Write]) -> None:
        """Otherwise sending each of them would fail again and again, and with it all that are sent
        together with it."""
        most = self.most_bytes
        for subject, payload, _ in writes:
            if len(payload) > most:
                raise StoreIncompatible(
                    f"{self._location.shown} takes {most:,} bytes in a message, and {subject} "
                    f"needs {len(payload):,}: raise max_payload in the server's configuration."
                )

    def _judge(self, answer: Reply | None) -> tuple[int, str]:
        """A sequence, CONFLICT; or REFUSED or _AGAIN with the error."""
        if answer is None:
            return _AGAIN, "no answer"
        if not answer.data:
            return _AGAIN, "no stream answers (is JetStream on, and has it a leader?)"
        ack = _decode_ack(answer.data)
        if ack.error is None:
            return ack.seq, ""
        if ack.error.err_code in _WRONG_SEQUENCE:
            return CONFLICT, ""
        if ack.error.code == _BAD_REQUEST:
            return REFUSED, ack.error.description
        return _AGAIN, ack.error.description

    async def _send(
        self, writes: Sequence[Write], which: Sequence[int], deadline: float
    ) -> list[Reply | None]:
        round_ = _Answers(len(which), asyncio.get_running_loop().create_future())
        tokens: list[str] = []
        try:
            messages: list[Outgoing] = []
            for position, index in enumerate(which):
                subject, payload, headers = writes[index]
                token = self._await(round_, position)
                tokens.append(token)
                messages.append((subject, f"{self._inbox}.{token}", payload, headers))
            self.client.send(messages)
            left = max(min(ATTEMPT_S, deadline - time.monotonic()), 0.05)
            async with asyncio.timeout(left):
                await round_.future
        except (TimeoutError, nats.errors.Error, OSError) as error:
            log.debug("sending failed: %s", error or "no answer in time")
            self._connection.revive()
        finally:
            for token in tokens:
                self._waiting.pop(token.encode(), None)
        return round_.answers

    async def write_batch(self, stream: str, writes: Sequence[Write]) -> int:
        """Write all or nothing. Returns the sequence of the last, or 0 if a guard did not hold. An
        unknown outcome counts as 0, too: the caller reads what is stored."""
        batch = f"{self._inbox[-12:]}{next(self._numbers)}"
        last = len(writes)
        round_ = _Answers(1, asyncio.get_running_loop().create_future())
        token = self._await(round_, 0)
        messages: list[Outgoing] = []
        try:
            for number, (subject, payload, headers) in enumerate(writes, start=1):
                own = {
                    **(headers or {}),
                    "Nats-Batch-Id": batch,
                    "Nats-Batch-Sequence": str(number),
                }
                if number == last:
                    own["Nats-Batch-Commit"] = "1"
                reply = f"{self._inbox}.{token}" if number == last else ""
                messages.append((subject, reply, payload, own))
            self.client.send(messages)
            async with asyncio.timeout(ATTEMPT_S):
                await round_.future
        except (TimeoutError, nats.errors.Error, OSError):
            self._connection.revive()
            return CONFLICT
        finally:
            self._waiting.pop(token.encode(), None)
        seq, _ = self._judge(round_.answers[0])
        if seq <= CONFLICT:
            return CONFLICT
        self.acked[stream] = max(seq, self.acked.get(stream, 0))
        return seq

    def hint(self, hints: Mapping[str, bytes]) -> None:
        """Publish messages that may be lost, by subject, as one piece. One that the server would
        not take is left out, so that the others are sent."""
        most = self.most_bytes
        with contextlib.suppress(Exception):
            self.client.send(
                [(subject, "", data, None) for subject, data in hints.items() if len(data) <= most]
            )

    # --- reading ---

    async def read(self, stream: str, request: dict[str, Any]) -> tuple[list[Reply], Reply]:
        """The messages that a direct get finds, and the end mark. Repeated until complete."""
        body = msgspec.json.encode(request)
        deadline = time.monotonic() + PATIENCE_S
        failures = 0
        while True:
            found = await self._read(f"$JS.API.DIRECT.GET.{stream}", body, deadline)
            if found is not None:
                return found
            if self.leaving or time.monotonic() > deadline:
                raise self.unavailable("reads are not answered")
            failures += 1
            await asyncio.sleep(_BACKOFF.pause(failures, self._rng))

    async def _read(
        self, subject: str, body: bytes, deadline: float
    ) -> tuple[list[Reply], Reply] | None:
        reading = _Reading(asyncio.get_running_loop().create_future())
        token = self._await(reading, 0)
        left = max(min(ATTEMPT_S, deadline - time.monotonic()), 0.05)
        try:
            self.client.send([(subject, f"{self._inbox}.{token}", body, None)])
            async with asyncio.timeout(left):
                end = await reading.future
        except (TimeoutError, nats.errors.Error, OSError):
            self._connection.revive()
            return None
        finally:
            self._waiting.pop(token.encode(), None)
        if end is None:
            return None
        status = end.status
        if status == "404":
            return [], end
        if status in ("204", "413"):
            last = int(end.header(b"Nats-Last-Sequence") or 0)
            whole = not reading.messages or last == seq_of(reading.messages[-1])
            return (reading.messages, end) if whole or status == "413" else None
        return None

    async def read_each(
        self, stream: str, requests: Sequence[dict[str, Any]]
    ) -> list[Reply | None]:
        """The one message that each of several direct gets finds, or the status that says why there
        is none; None if no answer came in time."""
        round_ = _Answers(len(requests), asyncio.get_running_loop().create_future())
        tokens = [self._await(round_, index) for index in range(len(requests))]
        subject = f"$JS.API.DIRECT.GET.{stream}"
        try:
            self.client.send(
                (subject, f"{self._inbox}.{token}", msgspec.json.encode(request), None)
                for token, request in zip(tokens, requests, strict=True)
            )
            async with asyncio.timeout(ATTEMPT_S):
                await round_.future
        except (TimeoutError, nats.errors.Error, OSError):
            self._connection.revive()
        finally:
            for token in tokens:
                self._waiting.pop(token.encode(), None)
        return round_.answers

    async def api(
        self, subject: str, request: dict[str, Any] | None = None, *, opening: bool = False
    ) -> dict[str, Any]:
        """Ask JetStream's API; errors come back under `error`. While `opening`, a short time
        without any responder means that JetStream is off."""
        body = b"" if request is None else msgspec.json.encode(request)
        deadline = time.monotonic() + (OPEN_PATIENCE_S if opening else PATIENCE_S)
        nobody = time.monotonic() + NOBODY_S
        failures = 0
        while True:
            answer, trouble = await self._ask(f"$JS.API.{subject}", body)
            if answer is not None and answer.status:
                if opening and time.monotonic() > nobody:
                    return {"error": {"err_code": 10076}}
                trouble = "no responders"
            elif answer is not None:
                found: dict[str, Any] = msgspec.json.decode(answer.data)
                problem = found.get("error")
                if (
                    problem is None
                    or problem.get("code") != 503
                    or problem.get("err_code") in (10076, 10039)
                ):
                    return found
                trouble = str(problem.get("description"))
            if self.leaving or time.monotonic() > deadline:
                raise self.unavailable(trouble)
            failures += 1
            await asyncio.sleep(_BACKOFF.pause(failures, self._rng))

    async def _ask(self, subject: str, body: bytes) -> tuple[Reply | None, str]:
        """One answer; or None, and the error."""
        round_ = _Answers(1, asyncio.get_running_loop().create_future())
        token = self._await(round_, 0)
        try:
            self.client.send([(subject, f"{self._inbox}.{token}", body, None)])
            async with asyncio.timeout(ATTEMPT_S):
                await round_.future
        except (TimeoutError, nats.errors.Error, OSError) as error:
            self._connection.revive()
            return None, str(error) or type(error).__name__
        finally:
            self._waiting.pop(token.encode(), None)
        return round_.answers[0], "the connection was lost"

    def unavailable(self, problem: str) -> StoreUnavailable:
        """The error to raise when the patience is over."""
        self.troubled()
        return StoreUnavailable(
            f"NATS at {self._location.shown} does not take or give messages: {problem}. "
            "Look at the server and its JetStream; what was under way may have been written."
        )


def seq_of(msg: Reply) -> int:
    """The stream sequence of a message that was read."""
    return msg.place[1]


def subject_of(msg: Reply) -> str:
    """The subject under which it was stored."""
    return msg.place[0]


def stamp_of(msg: Reply) -> str:
    """When the server stored it."""
    return msg.header(b"Nats-Time-Stamp")
