"""Settings of jobs, from the environment."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from andon.model.errors import ConfigurationError
from andon.model.policy import DAY


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The page's settings that are set; the names are those of the page."""

    worker_timeout: float | None = None  #: WORKER_TIMEOUT: seconds one run may take (3600)
    queue_timeout: float | None = None  #: QUEUE_TIMEOUT: seconds a job may wait (7200)
    retention_days: float | None = None  #: JOB_RETENTION_DAYS: days a job is kept (7)

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> "JobSettings":
        """From the environment. Raises `ConfigurationError` for what is no number."""
        return cls(
            worker_timeout=_number(environment, "WORKER_TIMEOUT"),
            queue_timeout=_number(environment, "QUEUE_TIMEOUT"),
            retention_days=_number(environment, "JOB_RETENTION_DAYS"),
        )

    @property
    def options(self) -> dict[str, Any]:
        """The policy options that are set."""
        days = self.retention_days
        set_here = {
            "timeout": self.worker_timeout,
            "queue_timeout": self.queue_timeout,
            "retention": None if days is None else days * DAY,
        }
        return {name: value for name, value in set_here.items() if value is not None}


def _number(environment: Mapping[str, str], name: str) -> float | None:
    text = environment.get(name)
    if not text:
        return None
    try:
        number = float(text.removesuffix("s"))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ConfigurationError(f"{name} is a number, at least 0, not {text!r}.")
    return number
