"""The metrics of a service process, for Prometheus.

Counts of requests and of store operations are this process's own; depths and ages are the store's,
read at each scrape. Moves made by other processes (a worker with the store's URL) are in their
counts, not in these.
"""

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from andon.contract.instruments import FAST, SIZES, SLOW
from andon.lifecycle.waiting import Why

_WITHOUT_CODE = frozenset({Why.NO_CODE, Why.NO_WORKER})

_MOST_KINDS = 200
"""How many kinds are shown: their names come from outside."""

if TYPE_CHECKING:
    from andon.engine.base import Engine


class WorkMetrics:
    """The metrics of any process that works with tasks:
    `andon.contract.instruments.Instruments`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        registry = self.registry
        self.store = Histogram(
            "andon_store_seconds",
            "Calls of the store by operation.",
            ["operation"],
            buckets=FAST,
            registry=registry,
        )
        self.batches = Histogram(
            "andon_store_batch_size",
            "Items in one call of the store.",
            ["operation"],
            buckets=SIZES,
            registry=registry,
        )
        self.store_errors = Counter(
            "andon_store_errors",
            "Calls of the store that failed.",
            ["operation"],
            registry=registry,
        )
        self.submitted = Counter(
            "andon_tasks_submitted", "Tasks stored, by queue.", ["queue"], registry=registry
        )
        self.claim_latency = Histogram(
            "andon_claim_latency_seconds",
            "From pending to claimed, by queue.",
            ["queue"],
            buckets=SLOW,
            registry=registry,
        )
        self.runs = Histogram(
            "andon_run_seconds",
            "Runs by type of task and outcome.",
            ["task", "outcome"],
            buckets=SLOW,
            registry=registry,
        )
        self.retries = Counter(
            "andon_retries", "Runs that are tried again.", ["task"], registry=registry
        )
        self.lost = Counter(
            "andon_leases_lost", "Runs whose lease ran out.", ["task"], registry=registry
        )


class Metrics(WorkMetrics):
    """The metrics of one service."""

    def __init__(self) -> None:
        super().__init__()
        registry = self.registry
        self.requests = Histogram(
            "andon_http_request_seconds",
            "Requests by route and status.",
            ["method", "route", "status"],
            buckets=FAST,
            registry=registry,
        )
        self.streams = Gauge(
            "andon_http_streams", "Streams of events and logs open.", registry=registry
        )
        self.waiting_workers = Gauge(
            "andon_taskcluster_waiting_workers",
            "Workers of the Taskcluster face that wait for work.",
            registry=registry,
        )
        self.messages = Counter(
            "andon_taskcluster_messages",
            "Messages by sink: delivered, passed over for good, and tries that failed.",
            ["sink", "outcome"],
            registry=registry,
        )
        self.message_lag = Gauge(
            "andon_taskcluster_message_lag_seconds",
            "Age of the oldest message that is being delivered.",
            ["sink"],
            registry=registry,
        )
        self.depth = Gauge(
            "andon_queue_tasks", "Tasks by queue and state.", ["queue", "state"], registry=registry
        )
        self.oldest = Gauge(
            "andon_queue_oldest_seconds",
            "Age of the oldest claimable task.",
            ["queue"],
            registry=registry,
        )
        self.parked = Gauge(
            "andon_queue_parked",
            "Pending, but held back by their key's limit.",
            ["queue"],
            registry=registry,
        )
        self.dead = Gauge(
            "andon_queue_dead_letters", "Dead letters kept.", ["queue"], registry=registry
        )
        self.without_code = Gauge(
            "andon_waiting_without_code_seconds",
            "Age of the oldest task of a kind that no live worker of its queue has code for.",
            ["queue", "kind"],
            registry=registry,
        )
        self.workers = Gauge("andon_workers", "Workers alive.", registry=registry)

    async def text(self, engine: "Engine") -> bytes:
        """Everything, in Prometheus' text format."""
        now = engine.now()
        for gauge in (self.depth, self.oldest, self.parked, self.dead, self.without_code):
            gauge.clear()
        for queue in await engine.stats():
            for state, count in queue.counts.items():
                self.depth.labels(queue.queue, state).set(count)
            oldest = queue.oldest_pending_at
            age = 0.0 if oldest is None else max(now - oldest, 0) / 1000
            self.oldest.labels(queue.queue).set(age)
            self.parked.labels(queue.queue).set(queue.parked)
            self.dead.labels(queue.queue).set(queue.dead_letters)
        waits = [one for one in await engine.waits() if one.why in _WITHOUT_CODE]
        for wait in waits[:_MOST_KINDS]:
            age = 0.0 if wait.oldest_at is None else max(now - wait.oldest_at, 0) / 1000
            self.without_code.labels(wait.queue, wait.kind.removesuffix("?")).set(age)
        self.workers.set(len(await engine.workers()))
        return generate_latest(self.registry)
