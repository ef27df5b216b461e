"""A worker in a process of its own: `python -m andon.bench.worker QUEUE CONCURRENCY`.

Says on stdout, one JSON object a line, what it has used: once when its imports are done, and
once when it has left. The store is the one that ANDON_URL names; loop and
settings are those of `andon worker`.
"""

import json
import sys

from andon.bench.usage import usage


def main(queue: str, concurrency: int) -> None:
    """Work until told to stop."""
    from andon.bench.app import app
    from andon.worker.event_loop import run_on
    from andon.worker.tuning import tune_process

    tune_process()
    print(json.dumps(usage()), flush=True)
    run_on("auto", app.run_worker(queues=[queue], concurrency=concurrency))
    print(json.dumps(usage()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
