"""The routes, one module per kind of thing that they are about."""
