"""The pure core: the table of moves, delays, timers, policies."""
