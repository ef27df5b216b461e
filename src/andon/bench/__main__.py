"""`python -m andon.bench KIND [--n N] [--concurrency C] [--how HOW] [--url URL]`."""

import argparse
import json

from andon.bench import KINDS, run


def main() -> None:
    """Measure once and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m andon.bench")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--n", type=int)
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--how", choices=("single", "concurrent", "bulk"))
    parser.add_argument("--url", help="a store to use; none: a fresh file, removed afterwards")
    parser.add_argument("--rate", type=float, default=50.0, help="a second, for latency")
    asked = parser.parse_args()
    outcome = run(
        asked.kind,
        url=asked.url,
        n=asked.n,
        concurrency=asked.concurrency,
        how=asked.how,
        rate=asked.rate,
    )
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
