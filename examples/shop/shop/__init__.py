"""A small shop: orders over HTTP, everything slow as tasks in the database of the orders."""
