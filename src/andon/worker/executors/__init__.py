"""Where handlers run: on the loop, in threads, in child processes, as commands."""
