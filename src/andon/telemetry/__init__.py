"""Telemetry of an application: traces and metrics. Extra `andon[otel]`."""

from andon.telemetry.metrics import Metrics
from andon.telemetry.tracing import Tracing

__all__ = ["Metrics", "Tracing"]
