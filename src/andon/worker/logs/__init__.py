"""Logs of runs: lines about runs, the lines that runs write, and which run a record belongs to."""
