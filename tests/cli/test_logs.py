"""What long-running commands log: which run it was, as text and as JSON."""

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from andon import Andon, Context, current
from andon.cli.logs import JsonLines, TextLines
from andon.testing import running, virtual_time
from andon.worker.logs.fields import RunFieldsFilter


class Lines(logging.Handler):
    """Keeps what a formatter makes of records."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.addFilter(RunFieldsFilter())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("shop.mail")
    logger.setLevel(logging.INFO)
    yield logger
    for handler in list(logger.handlers):
        logger.removeHandler(handler)


def kept(logger: logging.Logger, formatter: logging.Formatter) -> list[str]:
    handler = Lines(formatter)
    logger.addHandler(handler)
    return handler.lines


@virtual_time
async def test_any_logger_inside_a_handler_names_the_run(logger: logging.Logger):
    app = Andon("memory://")
    lines = kept(logger, TextLines())

    @app.task
    async def send(ctx: Context) -> None:
        logger.info("sending")

    async with running(app) as t:
        handle = await send.submit()
        await t.run_until_idle()
    assert [line.partition("INFO    ")[2] for line in lines] == [
        f"shop.mail: sending [task {handle.id} run 0]"
    ]


@virtual_time
async def test_a_thread_of_a_sync_handler_names_the_run_too(logger: logging.Logger):
    app = Andon("memory://")
    lines = kept(logger, JsonLines())

    @app.task
    def send() -> None:
        logger.warning("slow %s", "relay")

    async with running(app) as t:
        handle = await send.submit()
        await t.run_until_idle()
    [entry] = [json.loads(line) for line in lines]
    assert entry["task_id"] == handle.id
    assert entry["message"] == "slow relay"
    assert (entry["level"], entry["run"], entry["task_name"]) == ("warning", 0, send.name)
    assert entry["worker"]


def test_a_line_outside_of_a_run_names_none(logger: logging.Logger):
    text, jsonl = kept(logger, TextLines()), kept(logger, JsonLines())
    with pytest.raises(LookupError):
        current()
    logger.info("begun")
    assert text[0].endswith("INFO    shop.mail: begun")
    assert json.loads(jsonl[0]).keys() == {"time", "level", "logger", "message"}


def test_an_error_is_one_json_object_on_one_line(logger: logging.Logger):
    lines = kept(logger, JsonLines())
    try:
        raise ValueError("no\nroute")
    except ValueError:
        logger.exception("failed")
    [line] = lines
    assert "\n" not in line
    assert "ValueError: no\nroute" in json.loads(line)["error"]


def test_a_line_inside_a_span_names_the_trace(logger: logging.Logger):
    lines = kept(logger, JsonLines())
    provider = TracerProvider()
    with provider.get_tracer("t").start_as_current_span("s") as span:
        logger.info("here")
    entry = json.loads(lines[0])
    assert entry["trace_id"] == f"{span.get_span_context().trace_id:032x}"
    assert entry["span_id"] == f"{span.get_span_context().span_id:016x}"


FORGED = (
    "paid\n2026-01-01 00:00:00,000 INFO    andon.worker: all is well\x1b[2K\r\x9b31m\u202e\udce9"
)


def record(text: str, **fields: Any) -> logging.LogRecord:
    """Handed to formatters directly: what is no text does not travel between pytest's processes."""
    made = logging.LogRecord("shop.mail", logging.INFO, "mail.py", 1, "%s", (text,), None)
    made.__dict__.update(fields)
    return made


def test_a_text_line_stays_one_line_whatever_a_task_puts_into_it():
    line = TextLines().format(record(FORGED))
    assert line.endswith(
        "INFO    shop.mail: paid\\n2026-01-01 00:00:00,000 INFO    andon.worker: all is well"
        "\\x1b[2K\\r\\x9b31m\\u202e\\udce9"
    )
    assert len(line.splitlines()) == 1


def test_lines_of_a_traceback_are_indented_so_that_none_looks_like_a_record():
    try:
        raise ValueError(FORGED)
    except ValueError:
        failed = record("failed", exc_info=sys.exc_info(), stack_info=FORGED)
    assert "\n2026-01-01" in logging.Formatter("%(message)s").format(failed)
    assert failed.exc_text  # which another formatter leaves in the record
    first, *more = TextLines().format(failed).split("\n")
    assert first.endswith("shop.mail: failed")
    assert all(line.startswith("    ") and line.isprintable() for line in more)
    assert any("ValueError: paid" in line for line in more)


def test_a_json_line_takes_what_is_no_text_for_others():
    entry = json.loads(JsonLines().format(record(FORGED, task_id="a\udce9")))
    assert entry["message"] == FORGED[:-1] + "\\udce9"
    assert entry["task_id"] == "a\\udce9"
