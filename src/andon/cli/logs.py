"""Logs of long-running commands: the standard library's logging, to stderr."""

import logging
import sys


def log_to_stderr(*, quiet: bool) -> None:
    """One line per record; with `quiet` only warnings and errors."""
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )
