"""A listener to the stream of messages."""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
from tests.service.kit import eventually
from tests.taskcluster.shaped import check_message

STREAM = "/api/queue-events/v1/stream"
NAMES = "exchange/taskcluster-queue/v1/"


class Listener:
    """Reads a stream in a thread and keeps what came."""

    def __init__(self, answer: httpx.Response) -> None:
        self.messages: list[dict[str, Any]] = []
        self.ids: list[str] = []
        """The id that a client has after each message."""
        self.last_id = ""
        self.ended = ""
        self.gaps = self.pings = 0
        self._answer = answer
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def until(self, count: int) -> list[dict[str, Any]]:
        """So many messages, once they have come."""
        eventually(lambda: len(self.messages) >= count)
        return self.messages

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for line in self._answer.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name or "comment"] = value
                    continue
                self._take(fields)
                fields = {}
        except (httpx.HTTPError, httpx.StreamError):
            return

    def _take(self, fields: dict[str, str]) -> None:
        self.last_id = fields.get("id", self.last_id)
        match fields.get("event"):
            case "message":
                self.ids.append(self.last_id)
                self.messages.append(json.loads(fields["data"]))
            case "end":
                self.ended = json.loads(fields["data"])["reason"]
            case "gap":
                self.gaps += 1
            case _:
                self.pings += "comment" in fields


@contextmanager
def listening(
    http: httpx.Client,
    *bindings: tuple[str, str],
    after: str = "",
    headers: dict[str, str] | None = None,
) -> Generator[Listener]:
    """Listen for as long as the block lasts, from when it begins."""
    sent = {**(headers or {}), **({"Last-Event-ID": after} if after else {})}
    with http.stream("GET", STREAM, params=query(bindings), headers=sent) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        listener = Listener(answer)
        eventually(lambda: listener.last_id)
        yield listener
        for message in listener.messages:
            check_message(message)


def query(bindings: Sequence[tuple[str, str]]) -> str:
    """The parameters that ask for these."""
    pairs: list[tuple[str, str]] = []
    for exchange, pattern in bindings:
        pairs += [("exchange", NAMES + exchange), ("routingKeyPattern", pattern)]
    return urlencode(pairs)
