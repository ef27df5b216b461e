"""The HTTP service, for every client that does not use the store directly.

`service.Service` holds the parts of one service process, `app.make_app` makes the ASGI application,
`server.serve` runs it until told to stop.
"""
