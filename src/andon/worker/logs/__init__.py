"""Logs of runs: records about runs, records made by runs, and which run a record belongs to."""
