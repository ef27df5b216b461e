"""The lifecycle of tasks: the table of moves and everything derived from it. Pure: no I/O, no
clock."""
