"""Andon measured once on a fresh file: `python andon_side.py KIND N SYNCHRONOUS [HOW [C]]`."""

import json
import sys
import tempfile
from pathlib import Path

from andon.bench import run


def main(kind: str, n: str, synchronous: str, how: str = "", concurrency: str = "") -> None:
    with tempfile.TemporaryDirectory(prefix="andon-bench-") as folder:
        outcome = run(
            kind,
            url=f"sqlite:///{Path(folder) / 'bench.db'}?synchronous={synchronous}",
            n=int(n),
            how=how or None,
            concurrency=int(concurrency) if concurrency else None,
        )
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
