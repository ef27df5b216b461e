"""The CPU time and memory that a process has used."""

import resource
from pathlib import Path


def usage() -> dict[str, float]:
    """CPU seconds used so far by this process, and its memory now and at its most, in MiB."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resident, peak = _memory()
    return {"cpu_s": used.ru_utime + used.ru_stime, "rss_mb": resident, "peak_rss_mb": peak}


def _memory() -> tuple[float, float]:
    # Not from getrusage: its peak is that of the parent process, if that was larger.
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:  # not on Linux
        return 0.0, 0.0
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return (int(fields["VmRSS"].split()[0]) / 1024, int(fields["VmHWM"].split()[0]) / 1024)
