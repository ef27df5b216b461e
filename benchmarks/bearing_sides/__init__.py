"""Queues whose closings and occurrences are counted by `bearing_peers.py`: one module for each.

A module names the commands that run its worker and its scheduler, and `groups`, which submits
groups of members with a closing task each. What runs appends a line to a file. Imported by the
peer's own environment, which has nothing of Andon's in it.
"""
