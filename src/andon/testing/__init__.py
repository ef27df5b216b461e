"""Virtual time, an application in memory, and what tests ask of it."""
