"""Which run a log record belongs to."""

import logging

from andon.worker.context import running

RUN_FIELDS = ("task_id", "task_name", "run", "worker")
"""What a record made inside a run carries, whichever logger made it."""


class RunFieldsFilter(logging.Filter):
    """Adds `RUN_FIELDS` to records made by a handler and by what it calls. Lets all pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "task_id"):
            context = running.get(None)
            if context is not None:
                record.task_id = context.task_id
                record.task_name = context.name
                record.run = context.run
                record.worker = context.worker
        return True
