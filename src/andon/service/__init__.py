"""The HTTP service: everything that is not a Python process with the store's URL comes in here.

`service.Service` holds what one process serves with, `app.make_app` makes the ASGI application,
`server.serve` runs it until told to stop.
"""
