"""OpenTelemetry metrics of an application.

    from andon.telemetry import Metrics
    app = Andon(middleware=[Metrics()])

They are counted where the store is called (over HTTP: where the service is), so they need nothing
of a handler, and an application without them pays nothing. Names and units:

| metric | unit | attributes |
|---|---|---|
| `andon.run.duration` | s | `andon.task.name`, `andon.run.outcome` |
| `andon.claim.latency` | s | `andon.queue.name` |
| `andon.tasks.submitted` | {task} | `andon.queue.name` |
| `andon.runs.retried` | {run} | `andon.task.name` |
| `andon.leases.lost` | {run} | `andon.task.name` |
| `andon.store.duration` | s | `andon.store.operation` |
| `andon.store.batch_size` | {item} | `andon.store.operation` |
| `andon.store.errors` | {call} | `andon.store.operation` |
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from andon.contract.instruments import FAST, SIZES, SLOW
from andon.model.errors import ConfigurationError

try:
    from opentelemetry import metrics
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ConfigurationError(
        "Metrics need OpenTelemetry: pip install 'andon[otel]' and an exporter of your choice."
    ) from error

if TYPE_CHECKING:
    from opentelemetry.util.types import Attributes

_TASK = "andon.task.name"
_QUEUE = "andon.queue.name"
_OUTCOME = "andon.run.outcome"
_OPERATION = "andon.store.operation"


class Metrics:
    """Middleware that counts. The provider defaults to OpenTelemetry's global one.

    Example:
        from andon import Andon
        from andon.telemetry import Metrics

        app = Andon("memory://", middleware=[Metrics()])
        async with app:
            await app.submit("charge", {"order": 7, "cents": 990})
    """

    def __init__(self, meter_provider: "metrics.MeterProvider | None" = None) -> None:
        self._meter = metrics.get_meter("andon", meter_provider=meter_provider)

    @cached_property
    def instruments(self) -> "Instruments":
        """The application's instruments (`andon.contract.instruments.Instruments`)."""
        return Instruments(self._meter)


class Instruments:
    """OpenTelemetry's instruments behind the interface for stores and engines."""

    def __init__(self, meter: "metrics.Meter") -> None:
        def times(name: str, unit: str, told: str, bounds: Sequence[float]) -> metrics.Histogram:
            return meter.create_histogram(
                name, unit, told, explicit_bucket_boundaries_advisory=bounds
            )

        self.store = _Histogram(
            times("andon.store.duration", "s", "Calls of the store.", FAST), _OPERATION
        )
        self.batches = _Histogram(
            times("andon.store.batch_size", "{item}", "Items in one call.", SIZES), _OPERATION
        )
        self.claim_latency = _Histogram(
            times("andon.claim.latency", "s", "From pending to claimed.", SLOW), _QUEUE
        )
        self.runs = _Histogram(
            times("andon.run.duration", "s", "Runs by how they ended.", SLOW), _TASK, _OUTCOME
        )
        count = meter.create_counter
        self.store_errors = _Counter(
            count("andon.store.errors", "{call}", "Calls that failed."), _OPERATION
        )
        self.submitted = _Counter(count("andon.tasks.submitted", "{task}", "Tasks stored."), _QUEUE)
        self.retries = _Counter(
            count("andon.runs.retried", "{run}", "Runs that are tried again."), _TASK
        )
        self.lost = _Counter(
            count("andon.leases.lost", "{run}", "Runs whose lease ran out."), _TASK
        )


class _Histogram:
    def __init__(self, histogram: "metrics.Histogram", *labels: str) -> None:
        self._histogram = histogram
        self._labels = labels

    def labels(self, *values: str) -> "_Distribution":
        return _Distribution(self._histogram, dict(zip(self._labels, values, strict=True)))


class _Distribution:
    def __init__(self, histogram: "metrics.Histogram", attributes: "Attributes") -> None:
        self._histogram = histogram
        self._attributes = attributes

    def observe(self, amount: float) -> None:
        self._histogram.record(amount, self._attributes)


class _Counter:
    def __init__(self, counter: "metrics.Counter", *labels: str) -> None:
        self._counter = counter
        self._labels = labels

    def labels(self, *values: str) -> "_Count":
        return _Count(self._counter, dict(zip(self._labels, values, strict=True)))


class _Count:
    def __init__(self, counter: "metrics.Counter", attributes: "Attributes") -> None:
        self._counter = counter
        self._attributes = attributes

    def inc(self, amount: float = 1) -> None:
        self._counter.add(amount, self._attributes)
