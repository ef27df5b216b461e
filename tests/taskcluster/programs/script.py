"""What scriptworker runs for each of its tasks: it leaves artifacts behind and ends as the task's
payload says. Run in scriptworker's own environment; argument: the folder that it works in.

The payload: {"exits": one exit code for each run, "wait": true to go on until it is stopped}.
"""

import json
import os
import sys
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
BYTES = bytes(range(256)) * 64

payload = json.loads((FOLDER / "work" / "task.json").read_text())["payload"]
run = int(os.environ["RUN_ID"])
public = FOLDER / "artifacts" / "public"
public.mkdir(parents=True, exist_ok=True)
(public / "report.txt").write_text(f"run {run} of {os.environ['TASK_ID']}\n" * 1000)
(public / "data.bin").write_bytes(BYTES)
print(f"run {run} has begun", flush=True)
(FOLDER / f"began-{os.environ['TASK_ID']}-{run}").touch()

worker = os.getppid()
while payload.get("wait") and run == 0:
    if os.getppid() != worker:
        sys.exit("the worker has gone")
    time.sleep(0.05)

sys.exit(payload["exits"][run])
