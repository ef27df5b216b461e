"""Whether other processes claim from the same sub-queues at the moment."""

import time

_CONTENDED_S = 1.0
"""After a claim lost to another process, claims spread over what was read for so long."""


class Contention:
    """Remembers for a moment that another process was faster."""

    def __init__(self) -> None:
        self._until = 0.0

    def note(self) -> None:
        """Another process was faster."""
        self._until = time.monotonic() + _CONTENDED_S

    def is_noted(self) -> bool:
        """Whether another process was faster a moment ago."""
        return time.monotonic() < self._until
