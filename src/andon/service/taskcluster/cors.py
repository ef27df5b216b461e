"""Headers by which browsers let pages from elsewhere read answers."""

SHARED = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-max-age", b"900"),
    (b"access-control-allow-methods", b"OPTIONS,GET,HEAD,POST,PUT,DELETE,TRACE,CONNECT"),
    (
        b"access-control-allow-headers",
        b"X-Requested-With,Content-Type,Authorization,Accept,Origin,Cache-Control,Last-Event-ID",
    ),
)
"""For a service that identifies its callers; an open one answers only this machine (see
`trust.access`)."""
