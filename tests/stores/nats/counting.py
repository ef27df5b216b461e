"""What calls of the store send and read, counted."""

from collections.abc import Sequence
from typing import Any

import pytest

from andon.stores.nats.jetstream import JetStream, Write
from andon.stores.nats.nats_client import Reply


class Traffic:
    """Messages written, messages read, and requests, since the last time it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written = self.read = self.requests = 0
        write, read, read_each, api = (
            JetStream.write,
            JetStream.read,
            JetStream.read_each,
            JetStream.api,
        )

        async def counted_write(
            js: JetStream, stream: str, writes: Sequence[Write], *, each: bool = False
        ) -> list[int]:
            self.written += len(writes)
            self.requests += bool(writes)
            return await write(js, stream, writes, each=each)

        async def counted_read(js: JetStream, stream: str, request: dict[str, Any]) -> Any:
            found, end = await read(js, stream, request)
            self.read += len(found)
            self.requests += 1
            return found, end

        async def counted_each(
            js: JetStream, stream: str, requests: Sequence[dict[str, Any]]
        ) -> list[Reply | None]:
            self.read += len(requests)
            self.requests += bool(requests)
            return await read_each(js, stream, requests)

        async def counted_api(js: JetStream, subject: str, *args: Any, **kwargs: Any) -> Any:
            self.requests += 1
            return await api(js, subject, *args, **kwargs)

        monkeypatch.setattr(JetStream, "write", counted_write)
        monkeypatch.setattr(JetStream, "read", counted_read)
        monkeypatch.setattr(JetStream, "read_each", counted_each)
        monkeypatch.setattr(JetStream, "api", counted_api)

    def taken(self) -> tuple[int, int, int]:
        """Written, read and requests, counted from zero afterwards."""
        found = self.written, self.read, self.requests
        self.written = self.read = self.requests = 0
        return found
