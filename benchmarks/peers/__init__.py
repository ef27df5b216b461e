"""The peers that Andon is measured beside: one small file each, all of one shape (`shape.Peer`).

A driver is imported twice: by the benchmark, which has none of the peers installed and reads only
what the class says of itself, and inside the peer's own environment (`session.py`, and the peer's
own worker command). So whatever imports the peer does it inside a function.
"""

from importlib import import_module

from peers.shape import Peer

BY_STORE = {
    "redis": (
        "taskiq",
        "saq",
        "arq",
        "streaq",
        "dramatiq",
        "celery",
        "rq",
        "huey",
        "docket",
        "bullmq",
    ),
    "postgres": ("procrastinate", "pgqueuer", "saq", "oban", "awa", "dbos"),
    "nats": ("taskiq_nats",),
}
"""Kind of store to the peers that live on it, in the order of the tables."""


def driver(name: str) -> type[Peer]:
    """The class of a peer's driver."""
    return import_module(f"peers.{name}").Driver
