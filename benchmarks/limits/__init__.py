"""The limit of each store: a bare client that does what the store does to its server or file.

A module here is named after its store and has `measure(url, n)`, which gives what `submit` and
`drain` of `n` tasks reach, each with its verified count. Run as `python -m limits.redis URL N` it
prints that as JSON.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent


def has(store: str) -> bool:
    """Whether there is one for this kind of store."""
    return (HERE / f"{store}.py").exists()
