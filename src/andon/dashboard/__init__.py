"""The board: shows all tasks and queues in a browser, and pauses queues; an ASGI application of its
own."""
