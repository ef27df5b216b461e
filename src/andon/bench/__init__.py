"""The benchmark behind `andon bench` and `python -m andon.bench`: real processes, real stores.

`run` measures one thing once and counts what the store says was completed; it asserts nothing
about time. `benchmarks/` in the repository interleaves many such runs with peers and with the
limit.
"""

from andon.bench.measuring import KINDS, run

__all__ = ["KINDS", "run"]
