"""Logs of long-running commands: the standard library's logging, to stderr, as text or as JSON."""

import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

import click
import msgspec

from andon.worker.logs import RUN_FIELDS, OfRun

Format = Literal["text", "json"]


def log_format(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--log-format`."""
    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        envvar="ANDON_LOG_FORMAT",
        show_default=True,
        show_envvar=True,
        help="Lines to read, or one JSON object a line.",
    )(command)


def log_to_stderr(*, quiet: bool, form: Format = "text") -> None:
    """One line per record, with its run where it has one; `quiet`: warnings and errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(OfRun())
    logging.basicConfig(level=logging.WARNING if quiet else logging.INFO, handlers=[handler])


class TextLines(logging.Formatter):
    """`TIME LEVEL logger: message`, and at its end which run of which task it was."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        line = super().formatMessage(record)
        of_run = record.__dict__
        if "task_id" not in of_run:
            return line
        return f"{line} [task {of_run['task_id']} run {of_run['run']}]"


class JsonLines(logging.Formatter):
    """One object a line: `time` (RFC 3339, UTC), `level`, `logger`, `message`; in a run also
    `task_id`, `task_name`, `run`, `worker`; in a span `trace_id`, `span_id`; `error` with its
    traceback."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in RUN_FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                entry[name] = value
        entry.update(_span())
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry, enc_hook=str).decode()


def _span() -> dict[str, str]:
    """The span the record is made in, if OpenTelemetry is in use here."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
