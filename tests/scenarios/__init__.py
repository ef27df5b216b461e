"""Every arrow and every ruling, taken by a real worker process."""
