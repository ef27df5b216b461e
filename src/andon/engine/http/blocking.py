"""Renewals from the lease keeper's thread, over a blocking connection of its own.

A handler may block the event loop, so nothing here uses it. The connection is kept between
renewals, and replaced when it breaks.
"""

import http.client
import threading

from andon.engine.http.place import Place
from andon.engine.http.replies import away, check
from andon.engine.http.wire import ROOT

TIMEOUT_S = 5.0
"""How long a renewal may take: much less than a lease, so that another can follow."""


class BlockingCalls:
    """One kept connection, used by one thread at a time."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None

    def call(self, method: str, body: bytes) -> bytes:
        """One request and its reply; blocks. Raises what a local engine would raise.

        A kept connection may have been closed by the other end, so a first failure on one is tried
        again on a new one: what is called here can be repeated.
        """
        with self._lock:
            kept = self._connection is not None
            try:
                return self._once(method, body)
            except (http.client.HTTPException, OSError) as error:
                self._drop()
                if not kept:
                    raise away(self._place, error) from error
            try:
                return self._once(method, body)
            except (http.client.HTTPException, OSError) as error:
                self._drop()
                raise away(self._place, error) from error

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._lock:
            self._drop()

    def _once(self, method: str, body: bytes) -> bytes:
        connection = self._connection = self._connection or self._connect()
        place = self._place
        connection.request("POST", f"{place.path}{ROOT}{method}", body, place.headers)
        reply = connection.getresponse()
        answer = reply.read()
        if reply.will_close:
            self._drop()
        return check(place, reply.status, answer)

    def _connect(self) -> http.client.HTTPConnection:
        place = self._place
        if place.secure:
            return http.client.HTTPSConnection(
                place.host, place.port, timeout=TIMEOUT_S, context=place.tls
            )
        return http.client.HTTPConnection(place.host, place.port, timeout=TIMEOUT_S)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
