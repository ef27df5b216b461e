"""Logs of long-running commands: the standard library's logging, to stderr, as text or as JSON."""

import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

import click
import msgspec

from andon.lifecycle.tracebacks import folded
from andon.model.text import one_line, storable
from andon.worker.logs.activity import RUNS
from andon.worker.logs.fields import RUN_FIELDS, RunFieldsFilter

Format = Literal["text", "json"]

LEVELS = ("debug", "info", "warning", "error")


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


def log_level(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--log-level` and `--quiet`."""
    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        envvar="ANDON_LOG_LEVEL",
        show_envvar=True,
        help="info: also each run's start and end. Default: info without those.",
    )
    quiet = click.option("--quiet", is_flag=True, help="Log warnings and errors only.")
    return level(quiet(command))


def log_to_stderr(*, quiet: bool = False, level: str | None = None, form: Format = "text") -> None:
    """One line per record, with its run where it has one; `quiet`: warnings and errors only.

    Without a `level` that is INFO, but for the starts and ends of runs: there may be thousands a
    second.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(RunFieldsFilter())
    default = logging.WARNING if quiet else logging.INFO
    chosen = default if level is None else getattr(logging, level.upper())
    logging.basicConfig(level=chosen, handlers=[handler])
    if level is None:
        logging.getLogger(RUNS).setLevel(logging.WARNING)


class TextLines(logging.Formatter):
    """`TIME LEVEL logger: message`, and at its end which run of which task it was.

    A record is one line whatever tasks put into it, so that none can add lines that look like
    others', or move the reader's cursor. Only tracebacks have more, each indented.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        lines = [one_line(self.formatMessage(record))]
        # Not the text that another formatter may have left in the record, which need not be one
        # line.
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            lines += _indented(folded(trace) if record.name == RUNS else trace)
        elif record.exc_text:
            lines += _indented(record.exc_text)
        if record.stack_info:
            lines += _indented(record.stack_info)
        return "\n".join(lines)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        line = super().formatMessage(record)
        of_run = record.__dict__
        if "task_id" not in of_run:
            return line
        return f"{line} [task {of_run['task_id']} run {of_run.get('run', '?')}]"


class JsonLines(logging.Formatter):
    """One object a line: `time` (RFC 3339, UTC), `level`, `logger`, `message`; in a run also
    `task_id`, `task_name`, `run`, `worker`; in a span `trace_id`, `span_id`; `error` with its
    traceback."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": storable(record.name),
            "message": storable(record.getMessage()),
        }
        for name in (*RUN_FIELDS, "queue", "duration"):
            value = getattr(record, name, None)
            if value is not None:
                entry[name] = storable(value) if isinstance(value, str) else value
        entry.update(_span())
        if record.exc_info:
            entry["error"] = storable(self.formatException(record.exc_info))
        return msgspec.json.encode(entry, enc_hook=str).decode()


def _indented(text: str) -> list[str]:
    return [f"    {one_line(line)}" for line in text.split("\n")]


def _span() -> dict[str, str]:
    """The span the record is made in, if OpenTelemetry is in use here."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
