"""The main job: a real workload on real input, with the board beside it.

It counts what is in every Python file of a folder (by default the standard library), one task per
file, and writes a report. Kill it at any point and start it again: it goes on where it was.
"""

from andon.demo.run import run_demo

__all__ = ["run_demo"]
