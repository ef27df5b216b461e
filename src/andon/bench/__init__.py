"""The benchmark behind `andon bench` and `python -m andon.bench`: real processes, real stores.

`run` measures one thing once and counts what the store says was completed; it asserts nothing
about time. `benchmarks/` in the repository interleaves many such runs with peers and with the
limit.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from andon.bench.measuring import KINDS, run

__all__ = ["KINDS", "run"]


def __getattr__(name: str) -> Any:
    # The worker that is measured must not carry what only the measuring needs.
    if name not in __all__:
        raise AttributeError(f"module 'andon.bench' has no attribute {name!r}")
    from andon.bench import measuring

    return getattr(measuring, name)
