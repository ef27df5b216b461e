"""What an application tells of itself beyond its tasks: traces, metrics. Extra `andon[otel]`."""

from andon.telemetry.metrics import Metrics
from andon.telemetry.tracing import Tracing

__all__ = ["Metrics", "Tracing"]
