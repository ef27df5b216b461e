"""The board: everything seen in a browser, and the cord to pull; an ASGI application of its own."""
