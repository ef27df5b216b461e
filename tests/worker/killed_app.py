"""The application of a worker that is killed: its runs tell who they are, and stay."""

import os
import subprocess
import sys
import time
from pathlib import Path

from andon import Andon

app = Andon()

SCRIPT = """
import os, subprocess, sys, time
folder, kind = sys.argv[1:]
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
with open(os.path.join(folder, kind + ".new"), "w") as told:
    told.write(f"{os.getpid()} {child.pid}")
os.rename(told.name, os.path.join(folder, kind))
time.sleep(600)
"""

app.command("command", [sys.executable, "-I", "-S", "-c", SCRIPT, ".", "command"])


@app.task(name="child", isolation="process")
def child() -> None:
    grandchild = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    )
    new = Path("child.new")
    new.write_text(f"{os.getpid()} {grandchild.pid}")
    new.rename("child")
    while True:
        time.sleep(600)
