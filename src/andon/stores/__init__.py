"""Where tasks live: the store contract and the stores that keep it."""
