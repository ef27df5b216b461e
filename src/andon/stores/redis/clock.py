"""The server's clock, and how scripts are given the time."""

from collections.abc import Callable

from andon.stores.kit.server_clock import ServerClock


class RedisClock(ServerClock):
    """The time of a Redis server. A replica that takes over may be behind, and its time is used:
    scripts go by it, whatever the time was before."""

    def __init__(self, virtual: Callable[[], int] | None = None) -> None:
        super().__init__(virtual, follows=True)

    @property
    def given(self) -> bytes:
        """The time that scripts are given: none, unless it is virtual."""
        return b"" if self.virtual is None else str(self.now()).encode()
