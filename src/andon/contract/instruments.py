"""The interface of metrics for stores and engines, implemented for Prometheus and OpenTelemetry."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from andon.model.task import Task

MOST_NAMES = 500
"""How many names get labels of their own: they come from outside, and a metric per name must not
grow for ever."""

FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""Seconds: bounds of the buckets of calls, and of runs and waits."""

SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)


class Distribution(Protocol):
    """One histogram, its labels given."""

    def observe(self, amount: float) -> None:
        """Count one value."""
        ...


class Distributions(Protocol):
    """A histogram."""

    def labels(self, *values: str) -> Distribution:
        """That of these labels."""
        ...


class Count(Protocol):
    """One counter, its labels given."""

    def inc(self, amount: float = 1) -> None:
        """Count on."""
        ...


class Counts(Protocol):
    """A counter."""

    def labels(self, *values: str) -> Count:
        """That of these labels."""
        ...


class Instruments(Protocol):
    """The metrics. Times are seconds; the comments name the labels."""

    @property
    def store(self) -> Distributions: ...  # calls, by operation
    @property
    def batches(self) -> Distributions: ...  # items in one call, by operation
    @property
    def store_errors(self) -> Counts: ...  # by operation
    @property
    def submitted(self) -> Counts: ...  # by queue
    @property
    def claim_latency(self) -> Distributions: ...  # by queue
    @property
    def runs(self) -> Distributions: ...  # by task type and outcome
    @property
    def retries(self) -> Counts: ...  # by task type
    @property
    def lost(self) -> Counts: ...  # by task type


class Names:
    """Names as labels: the first so many, then one for all others."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        """The label."""
        if name not in self._known:
            if len(self._known) >= MOST_NAMES:
                return "(others)"
            self._known.add(name)
        return name


def claimed_at(task: "Task") -> int | None:
    """When the newest run began, ms UTC."""
    return task.status.retried_at or task.status.started_at


def timed(
    call: Callable[..., Awaitable[Any]], metrics: Instruments, operation: str, *, sized: bool = True
) -> Callable[..., Awaitable[Any]]:
    """The same call, with its time and its errors counted under the operation; if it is `sized`,
    also the number of items in its first argument, once it has succeeded."""
    seconds = metrics.store.labels(operation)
    sizes = metrics.batches.labels(operation)
    errors = metrics.store_errors.labels(operation)

    async def measured_call(*args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            outcome = await call(*args, **options)
        except Exception:
            errors.inc()
            raise
        finally:
            seconds.observe(time.perf_counter() - began)
        if sized and args and isinstance(args[0], list | tuple):
            sizes.observe(len(cast("list[Any]", args[0])))
        return outcome

    return measured_call


def count_waits(tasks: "Sequence[Task]", metrics: Instruments, names: Names) -> None:
    """Count how long each of these, which have just been claimed, was pending."""
    for task in tasks:
        submitted, claimed = task.status.submitted_at, claimed_at(task)
        if submitted is not None and claimed is not None:
            latency = metrics.claim_latency.labels(names.of(task.definition.queue))
            latency.observe(max(claimed - submitted, 0) / 1000)
