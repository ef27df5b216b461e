"""Processes that tests start: each ends with the test process, also when that is killed.

Nothing runs Python between fork and exec in a process that has threads: what has to be said on the
child's side is said by a program of its own, which then becomes the one that was asked for.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_STARTER = ThreadPoolExecutor(1, "launcher")
"""What dies with its parent dies with the thread that made it: one that lives as long as we do."""

_BECOME = """
import ctypes, os, sys
parent, last_signal, identity, *command = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
if identity == "namespace" and libc.unshare(0x10000000) != 0:  # CLONE_NEWUSER
    sys.exit(f"no user namespace: {os.strerror(ctypes.get_errno())}")
if identity not in ("same", "namespace"):
    import pwd
    user = pwd.getpwnam(identity)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
if sys.platform == "linux":
    libc.prctl(1, int(last_signal), 0, 0, 0)  # PR_SET_PDEATHSIG; a change of identity clears it
    if os.getppid() != int(parent):
        sys.exit("its parent has ended")
os.execvp(command[0], command)
"""


def launch(
    command: Sequence[str | os.PathLike[str]],
    *,
    last_signal: signal.Signals = signal.SIGKILL,
    identity: str = "same",
    **options: Any,
) -> subprocess.Popen[Any]:
    """Start `command`, from any thread; `last_signal` reaches it when the test process has ended.

    `identity` is "same", "namespace" (a user namespace of its own, where it is nobody and yet owns
    the files of who started it) or a user's name. `options` are those of `subprocess.Popen`.
    """
    words = [str(os.getpid()), str(int(last_signal)), identity, *command]
    program = [sys.executable, "-I", "-S", "-c", _BECOME, *words]
    return _STARTER.submit(subprocess.Popen, program, **options).result()
