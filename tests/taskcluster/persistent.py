"""Clients of a service that is killed under them: a call is repeated until it is answered, as the
original's clients do it, and what was answered is written down."""

import asyncio
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import httpx

from .kit import BASE
from .shaped import check_read_async

PATIENCE_S = 60.0


class Account:
    """What the service has acknowledged, which must be true when all is over."""

    def __init__(self) -> None:
        self.created: dict[str, dict[str, Any]] = {}  #: definitions, by the id of the task
        self.members: dict[str, list[str]] = {}  #: tasks created, by their group
        self.refused: list[str] = []  #: tasks that a sealed group did not take
        self.sealed: dict[str, str] = {}  #: the time that was answered, by group
        self.sizes: dict[str, int] = {}  #: what a cancel told, by group
        self.handed: Counter[tuple[str, int]] = Counter()  #: runs handed out
        self.accepted: dict[tuple[str, int], str] = {}  #: reasons reported, by run
        self.denied: dict[tuple[str, int], str] = {}  #: reasons reported in vain, by run
        self.files: dict[tuple[str, int, str], bytes] = {}  #: by task, run and name
        self.entries: dict[tuple[str, int, str], str] = {}  #: storage types, likewise
        self.cut: Counter[str] = Counter()  #: calls broken off, by method
        self.lost: Counter[str] = Counter()  #: calls that were answered to nobody, by method


class Persistent:
    """A client, or a worker's side of one, that takes no broken connection for an answer."""

    def __init__(self, url: str, account: Account) -> None:
        self.account = account
        self.is_deaf = False
        """Whether what is answered does not arrive any more, as when the service is killed between
        its last write and its answer."""
        self._next: dict[str, asyncio.Event] = {}
        """Set when the next call of that method is sent."""
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=PATIENCE_S,
            event_hooks={"response": [check_read_async]},
            limits=httpx.Limits(max_connections=None),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def sent(self, name: str, most: float) -> None:
        """Wait until somebody sends a call of this method, but for so many seconds at the most."""
        event = self._next.setdefault(name, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), most)

    async def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        good: Collection[int] = (200,),
        content: bytes | None = None,
    ) -> httpx.Response:
        """What the method `name` of the API answers, whose status must be among the `good` ones. A
        call that was not answered is sent again, and one that was answered with 5xx."""
        sent: dict[str, Any] = {} if body is None else {"json": body}
        if content is not None:
            sent = {"content": content, "headers": {"content-type": "text/plain"}}
        url = path if path.startswith("http") else BASE + path
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, f"{name} is not answered"
            if name in self._next:
                self._next.pop(name).set()
            try:
                answer = await self._http.request(method, url, **sent)
            except httpx.ConnectError:
                answer = None
            except httpx.TransportError:
                answer = None
                self.account.cut[name] += 1
            if answer is not None and self.is_deaf:
                answer = None
                self.account.lost[name] += 1
            if answer is not None and answer.status_code < 500:
                assert answer.status_code in good, (name, path, answer.status_code, answer.text)
                return answer
            await asyncio.sleep(0.02)
