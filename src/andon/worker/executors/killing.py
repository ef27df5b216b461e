"""Ends a process and all it started: SIGTERM to its group, SIGKILL if that is not enough."""

import asyncio
import os
import signal
from collections.abc import Callable

KILL_AFTER_S = 5.0
"""From SIGTERM to SIGKILL (docs/rulings.md, R11)."""


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a process group whose leader is `pid`; nothing if it is gone."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM for a zombie
        return


def stop_group(pid: int, *, within: float, killed: Callable[[], None]) -> asyncio.TimerHandle:
    """SIGTERM now, SIGKILL after `within` seconds unless the timer returned is cancelled first.

    `killed` is called just before the SIGKILL.
    """

    def kill() -> None:
        killed()
        signal_group(pid, signal.SIGKILL)

    signal_group(pid, signal.SIGTERM)
    return asyncio.get_running_loop().call_later(within, kill)
