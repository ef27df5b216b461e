"""Traces, as an exporter sees them."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from andon import Andon, Snooze
from andon.telemetry import Tracing
from andon.testing import running, virtual_time


class Seen:
    """The spans that ended, and an application that makes them."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.app = Andon("memory://", middleware=[Tracing(self.provider)], retry_delay=1.0)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def seen() -> Iterator[Seen]:
    seen = Seen()
    yield seen
    seen.provider.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


@virtual_time
async def test_a_run_is_part_of_the_trace_of_its_submit(seen: Seen):
    @seen.app.task(queue="sums")
    async def add(a: int, b: int) -> int:
        return a + b

    async with running(seen.app) as t:
        handle = await add.submit(1, 2)
        await t.run_until_idle()
    [submit], [run] = seen.named(f"submit {add.name}"), seen.named(f"run {add.name}")
    assert run.parent is not None
    assert (run.parent.trace_id, run.parent.span_id) == ids(submit)
    assert (submit.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert attributes(submit)["messaging.message.id"] == handle.id
    assert attributes(run)["messaging.destination.name"] == "sums"
    assert attributes(run)["andon.run.number"] == 0
    assert run.status.status_code is StatusCode.UNSET


@virtual_time
async def test_what_a_handler_submits_continues_its_trace(seen: Seen):
    @seen.app.task
    async def inner() -> None: ...

    @seen.app.task
    async def outer() -> None:
        await inner.submit()

    async with running(seen.app) as t:
        await outer.submit()
        await t.run_until_idle()
    [outer_run], [submit] = seen.named(f"run {outer.name}"), seen.named(f"submit {inner.name}")
    assert submit.parent is not None
    assert (submit.parent.trace_id, submit.parent.span_id) == ids(outer_run)
    assert len({ids(span)[0] for span in seen.spans}) == 1


@virtual_time
async def test_a_retry_is_a_span_of_its_own_that_links_to_the_run_before_it(seen: Seen):
    tries: list[int] = []

    @seen.app.task
    async def flaky() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("no route")

    async with running(seen.app) as t:
        await flaky.submit()
        await t.advance(minutes=1)
    first, second = seen.named(f"run {flaky.name}")
    assert first.status.status_code is StatusCode.ERROR
    assert [event.name for event in first.events] == ["exception"]
    assert [(link.context.trace_id, link.context.span_id) for link in second.links] == [ids(first)]
    assert attributes(second)["andon.run.attempt"] == 2
    assert second.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("loads", [False, True])
@virtual_time
async def test_a_dependent_links_to_the_submits_of_what_it_depends_on(seen: Seen, loads: bool):
    @seen.app.task
    async def part(n: int) -> int:
        return n

    @seen.app.task
    async def whole() -> None: ...

    async with running(seen.app) as t:
        parts = [await part.submit(n) for n in range(2)]
        after = whole.options(depends_on=parts, load_dependencies=loads)
        await after.submit()
        await t.run_until_idle()
    [run] = seen.named(f"run {whole.name}")
    submits = {ids(span) for span in seen.named(f"submit {part.name}")}
    assert {(link.context.trace_id, link.context.span_id) for link in run.links} == submits


@virtual_time
async def test_a_run_that_snoozes_is_no_error(seen: Seen):
    tries: list[int] = []

    @seen.app.task
    async def later() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise Snooze(5)

    async with running(seen.app) as t:
        await later.submit()
        await t.advance(seconds=10)
    first, _ = seen.named(f"run {later.name}")
    assert first.status.status_code is StatusCode.UNSET
    assert attributes(first)["andon.run.ended_by"] == "Snooze"


@virtual_time
async def test_a_submit_repeated_in_another_trace_is_still_the_same(seen: Seen):
    @seen.app.task
    async def job() -> None: ...

    async with running(seen.app) as t:
        first = await job.options(id="one").submit()
        again = await job.options(id="one").submit()
        assert (first.created, again.created) == (True, False)
        await t.run_until_idle()
    assert len(seen.named(f"submit {job.name}")) == 2
    assert len(seen.named(f"run {job.name}")) == 1
