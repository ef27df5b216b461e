"""OpenTelemetry traces from submit to run.

    from andon.telemetry import Tracing
    app = Andon(middleware=[Tracing()])

A submit is a PRODUCER span; its context travels in the task's headers by the propagator that is
configured (W3C `traceparent` unless it is changed). Every run is a CONSUMER span below it, so one
trace shows a task from its submit through all of its runs. A run links to what led to it: to the
run before it, if this process ran that, and to the submits of the tasks it depends on, if they came
from the same process or their results were loaded.

Names and attributes follow OpenTelemetry's semantic conventions for messaging, and `andon.*` for
what they have no word for. Without a configured provider, OpenTelemetry makes no spans, and a run
costs a few microseconds more.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from andon.engine.base import Submission
from andon.model.errors import ConfigurationError
from andon.worker.context import Context
from andon.worker.control import Snooze, Stopped, Terminate, control_in

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context as Surroundings
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ConfigurationError(
        "Traces need OpenTelemetry: pip install 'andon[otel]' and an exporter of your choice."
    ) from error

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

X = TypeVar("X")

SYSTEM = "andon"
TRACEPARENT = "traceparent"  # header of W3C Trace Context, which the global propagator writes
DEPENDENCIES = "andon-dependencies"
"""Header with the `traceparent` of each dependency that was submitted by the same process."""

_MOST_KNOWN = 10_000
"""Newest submits and runs remembered for the links of runs that follow, some 200 bytes each."""


class _Recent(OrderedDict[str, X]):
    """The newest values by task id."""

    def put(self, task_id: str, value: X) -> None:
        self[task_id] = value
        self.move_to_end(task_id)
        if len(self) > _MOST_KNOWN:
            self.popitem(last=False)


class Tracing:
    """Middleware of client and worker. The provider defaults to OpenTelemetry's global one.

    Example:
        from andon import Andon
        from andon.telemetry import Tracing

        app = Andon("memory://", middleware=[Tracing()])
        async with app:
            await app.submit("charge", {"order": 7, "cents": 990})
    """

    def __init__(self, tracer_provider: "trace.TracerProvider | None" = None) -> None:
        self._tracer = trace.get_tracer("andon", tracer_provider=tracer_provider)
        self._runs: _Recent[trace.SpanContext] = _Recent()
        self._submits: _Recent[str] = _Recent()

    # --- at the submitter ---

    def on_submit(self, submission: Submission) -> Submission:
        """Give the task the context it is submitted in."""
        queue = submission.queue or "default"
        span = self._tracer.start_span(
            f"submit {submission.name}",
            kind=trace.SpanKind.PRODUCER,
            attributes={
                **_messaging(queue, submission.id, "send"),
                "andon.task.name": submission.name,
            },
        )
        headers = dict(submission.headers)
        with trace.use_span(span, end_on_exit=True):
            propagate.inject(headers)
        known = [self._submits[d] for d in submission.dependencies if d in self._submits]
        if known:
            headers[DEPENDENCIES] = " ".join(known)
        if TRACEPARENT in headers:
            self._submits.put(submission.id, headers[TRACEPARENT])
        return replace(submission, headers=headers)

    # --- at the worker ---

    async def around(self, context: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        """Run a handler in a span of its own."""
        definition = context.task.definition
        with self._tracer.start_as_current_span(
            f"run {definition.name}",
            context=_extract(definition.headers),
            kind=trace.SpanKind.CONSUMER,
            attributes=_of_run(context),
            links=self._links(context),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            self._runs.put(definition.id, span.get_span_context())
            try:
                return await call()
            except BaseException as error:
                how = control_in(error)
                if isinstance(how, Snooze | Terminate | Stopped):  # asked for, or told to stop
                    span.set_attribute("andon.run.ended_by", type(how).__name__)
                    raise
                span.record_exception(error)
                span.set_status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}")
                raise

    def _links(self, context: Context) -> "list[trace.Link]":
        links: list[trace.Link] = []
        before = self._runs.get(context.task_id)
        if before is not None:
            links.append(trace.Link(before, {"andon.link": "previous run"}))
        carried = [d.headers for d in context.dependencies.values()] or [
            {TRACEPARENT: parent}
            for parent in context.task.definition.headers.get(DEPENDENCIES, "").split()
        ]
        for headers in carried:
            submit = trace.get_current_span(_extract(headers)).get_span_context()
            if submit.is_valid:
                links.append(trace.Link(submit, {"andon.link": "dependency"}))
        return links


def _extract(headers: Mapping[str, str]) -> Surroundings:
    """The context that headers carry, and nothing of the one this process is in."""
    return propagate.extract(headers, Surroundings())


def _messaging(queue: str, task_id: str, operation: str) -> "dict[str, AttributeValue]":
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
        "messaging.message.id": task_id,
    }


def _of_run(context: Context) -> "dict[str, AttributeValue]":
    definition = context.task.definition
    return {
        **_messaging(definition.queue, definition.id, "process"),
        "andon.task.name": definition.name,
        "andon.task.version": definition.version,
        "andon.run.number": context.run,
        "andon.run.attempt": context.attempt,
        "andon.worker.id": context.worker,
    }
