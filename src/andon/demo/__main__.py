"""`python -m andon.demo`: the demo without the command line `andon`."""

import argparse
import sys

from andon.demo.run import WORKERS, run_demo


def main() -> int:
    """Read the command line and run the demo; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m andon.demo", description=__doc__)
    parser.add_argument("folder", nargs="?", help="a folder with Python files")
    parser.add_argument("--url", help="another store than the demo's own")
    parser.add_argument("--out", metavar="DIR", help="the folder for the store and the report")
    parser.add_argument("--workers", type=int, default=WORKERS, metavar="N")
    parser.add_argument("--concurrency", type=int, metavar="N", help="runs at once, per worker")
    parser.add_argument("--kills", type=int, metavar="N", help="workers to kill with -9 on the way")
    parser.add_argument("--fresh", action="store_true", help="start over")
    parser.add_argument("--json", action="store_true", help="print the ledger as JSON")
    given = parser.parse_args()
    return run_demo(
        given.folder,
        url=given.url,
        out=given.out,
        workers=given.workers,
        concurrency=given.concurrency,
        kills=given.kills,
        fresh=given.fresh,
        json=given.json,
        command="python -m andon.demo",
    )


if __name__ == "__main__":
    sys.exit(main())
