"""What an application tells about itself beyond its tasks: traces. Extra `andon[otel]`."""

from andon.telemetry.tracing import Tracing

__all__ = ["Tracing"]
