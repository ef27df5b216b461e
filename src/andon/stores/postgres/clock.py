"""The server's clock, and how statements are given the time."""

from andon.stores.kit.server_clock import ServerClock


class PostgresClock(ServerClock):
    """The time of a PostgreSQL server."""

    def argument(self) -> int:
        """The time argument of statements: the newest time that the server sent, behind which it
        will not go; or the time itself, as a negative number, if it is virtual."""
        return self.newest if self.virtual is None else -self.now()
