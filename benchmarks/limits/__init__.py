"""The limit of each store: a bare client that does what the store does to its server or file.

A module here is named after its store. Run as `python -m limits.redis URL PLAN` it prints what
submitting in bulk and draining reach, each with its verified count, as any session does
(side_by_side.py); `sqlite`, which has no server, is called by embedded.py.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent


def has(store: str) -> bool:
    """Whether there is one for this kind of store."""
    return (HERE / f"{store}.py").exists()
