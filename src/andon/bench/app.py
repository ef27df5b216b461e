"""The application that is measured: handlers that do nothing, so that what is left is Andon."""

import time

from andon.client.app import Andon

app = Andon()
"""Its tasks live where ANDON_URL says, which is how worker processes learn of the store."""


@app.task(name="bench.noop")
async def noop(number: int) -> None:
    """Do nothing."""


@app.task(name="bench.arrive")
async def arrive(sent_ns: int) -> int:
    """Nanoseconds since it was submitted, by this machine's clock."""
    return time.time_ns() - sent_ns
