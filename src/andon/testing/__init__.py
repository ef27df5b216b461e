"""Tools for tests: virtual time, and an application in memory."""

from andon.testing.app import StillRunning, TestApp, running
from andon.testing.clock import NothingLeft, VirtualLoop, run_virtual, virtual_time

__all__ = [
    "NothingLeft",
    "StillRunning",
    "TestApp",
    "VirtualLoop",
    "run_virtual",
    "running",
    "virtual_time",
]
