"""Whether a person is there."""

import sys


def somebody_there() -> bool:
    """Whether a question would be read and answered by a person."""
    return sys.stdin.isatty()
