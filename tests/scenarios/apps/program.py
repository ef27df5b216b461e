"""What commands run: obeys the payload on its standard input."""

import json
import os
import signal
import sys
import time


def main() -> None:
    """`gate` to wait at, `defy` to ignore SIGTERM, `say` to print, `exit` to end with."""
    todo = json.load(sys.stdin)
    if todo.get("defy"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gate = todo.get("gate")
    if gate:
        open(gate + ".begun", "w").close()  # noqa: PTH123 - starts faster without pathlib
        while not os.path.exists(gate):  # noqa: PTH110
            time.sleep(0.01)
    if "say" in todo:
        print(json.dumps(todo["say"]))
    sys.exit(todo.get("exit", 0))


if __name__ == "__main__":
    main()
