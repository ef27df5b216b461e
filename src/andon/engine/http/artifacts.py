"""`Artifacts` over a service: files streamed both ways, logs in pieces.

Reads are repeated while the service is away, a download from where it broke, and only while the
artifact is the same. An upload is repeated only if nothing of its content had been taken; a run's
own token goes with what is written.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Literal
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from andon.artifacts.base import Artifact, ArtifactNotFound, LogLine, LogPage
from andon.artifacts.entries import check_encoding, check_name
from andon.engine.http.replies import away
from andon.engine.http.transport import Transport
from andon.model.errors import AndonError, LeaseLost, StoreUnavailable, TaskNotFound

_PIECE = 1024 * 1024
_KEPT_S = 300.0
"""How long a service may take to make a whole file durable."""

_MOST_RESUMED = 5
"""Times that a download goes on after it broke, with nothing new in between."""

_ROOT = "/api/v1"


class _Shown(msgspec.Struct):
    task: str
    run: int
    name: str
    size: int
    sha256: str
    content_type: str
    created_at: datetime
    expires_at: datetime | None = None
    kind: Literal["file", "reference", "link", "error"] = "file"
    encoding: str = ""
    url: str = ""
    target: str = ""
    reason: str = ""
    message: str = ""

    def artifact(self) -> Artifact:
        return Artifact(
            task=self.task,
            run=self.run,
            name=self.name,
            size=self.size,
            sha256=self.sha256,
            content_type=self.content_type,
            created_at=_ms(self.created_at),
            expires_at=None if self.expires_at is None else _ms(self.expires_at),
            kind=self.kind,
            encoding=self.encoding,
            url=self.url,
            target=self.target,
            reason=self.reason,
            message=self.message,
        )


class _List(msgspec.Struct):
    artifacts: list[_Shown]
    cursor: str = ""


class _Line(msgspec.Struct):
    at: datetime
    level: str
    text: str


class _Lines(msgspec.Struct):
    lines: list[_Line]
    cursor: str


_decode_shown = msgspec.json.Decoder(_Shown).decode
_decode_list = msgspec.json.Decoder(_List).decode
_decode_lines = msgspec.json.Decoder(_Lines).decode


class HttpArtifacts:
    """The artifacts and logs behind a service. `token_of` knows the tokens of runs that were
    claimed here, by task id and number."""

    def __init__(self, transport: Transport, token_of: Callable[[str, int], str | None]) -> None:
        self._transport = transport
        self._token_of = token_of

    async def put(
        self,
        task: str,
        run: int,
        name: str,
        content: AsyncIterable[bytes],
        *,
        content_type: str = "application/octet-stream",
        encoding: str = "",
        expires_at: int | None = None,
    ) -> Artifact:
        check_name(name)
        check_encoding(encoding)
        query = "" if expires_at is None else f"?expires_at={expires_at}"
        path = f"{_ROOT}/runs/{_part(task)}/{run}/artifacts/{_part(name)}{query}"
        headers = {**self._of_run(task, run), "content-type": content_type}
        if encoding:
            headers["content-encoding"] = encoding
        sent = _Sent(content)

        async def send() -> bytes:
            try:
                async with self._transport.request(
                    "PUT", path, headers=headers, data=sent, silence=_KEPT_S
                ) as reply:
                    return await reply.read()
            except (aiohttp.ClientError, TimeoutError, OSError, StoreUnavailable) as error:
                if sent.begun:
                    raise _Broken(str(error)) from error
                raise

        try:
            answer = await self._transport.repeat(send)
        except Exception as error:
            if sent.failure is not None:  # its own source failed, not the service
                raise sent.failure from None
            if not isinstance(error, _Broken):
                raise
            raise StoreUnavailable(
                f"The connection to {self._transport.place.shown} broke while artifact {name!r} "
                "was sent. Nothing of it is known to be kept; put it again."
            ) from error
        return _decode_shown(answer).artifact()

    async def find(self, task: str, run: int | None = None) -> list[Artifact]:
        found: list[Artifact] = []
        query = {} if run is None else {"run": str(run)}
        while True:
            path = f"{_ROOT}/tasks/{_part(task)}/artifacts?{urlencode(query)}"
            try:
                page = _decode_list(await self._get(path))
            except TaskNotFound:
                return []
            found += [shown.artifact() for shown in page.artifacts]
            if not page.cursor:
                return found
            query["cursor"] = page.cursor

    async def latest(self, task: str, name: str) -> Artifact:
        for artifact in reversed(await self.find(task)):
            if artifact.name == name:
                return artifact
        raise ArtifactNotFound(task, name)

    async def read(self, artifact: Artifact, start: int = 0) -> AsyncIterator[bytes]:
        if artifact.kind != "file" or not artifact.is_present:
            raise ArtifactNotFound(artifact.task, artifact.name)
        at, left = start, _MOST_RESUMED
        while at < artifact.size:
            before = at
            try:
                async with self._transport.request(
                    "GET",
                    f"{_ROOT}/tasks/{_part(artifact.task)}/artifacts/{_part(artifact.name)}"
                    f"?run={artifact.run}",
                    headers={
                        "if-match": f'"{artifact.sha256}"',
                        "range": f"bytes={at}-",
                        "accept-encoding": "identity",  # as it is kept, and no other
                    },
                    decodes=False,
                ) as reply:
                    async for piece in reply.content.iter_chunked(_PIECE):
                        yield piece
                        at += len(piece)
            except (TaskNotFound, ArtifactNotFound):
                raise ArtifactNotFound(artifact.task, artifact.name) from None
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                left = _MOST_RESUMED if at > before else left - 1
                if left == 0:
                    raise away(self._transport.place, error) from error

    async def append_log(self, task: str, run: int, number: int, lines: Sequence[LogLine]) -> None:
        path = f"{_ROOT}/runs/{_part(task)}/{run}/logs"
        body = msgspec.json.encode(
            {
                "number": number,
                "lines": [
                    {"at": line.at, "level": line.level, "text": line.text} for line in lines
                ],
            }
        )
        headers = self._of_run(task, run)

        async def send() -> None:
            async with self._transport.request("POST", path, headers=headers, data=body) as reply:
                await reply.read()

        await self._transport.repeat(send)

    async def read_log(self, task: str, run: int, cursor: str = "") -> LogPage:
        query = urlencode({"run": run, "cursor": cursor})
        try:
            answer = await self._get(f"{_ROOT}/tasks/{_part(task)}/logs?{query}")
        except TaskNotFound:
            return LogPage((), cursor)
        page = _decode_lines(answer)
        lines = tuple(LogLine(_ms(line.at), line.level, line.text) for line in page.lines)
        return LogPage(lines, page.cursor)

    async def close(self) -> None:
        """Nothing to do: the connections are the engine's."""

    async def _get(self, path: str) -> bytes:
        async def send() -> bytes:
            async with self._transport.request("GET", path) as reply:
                return await reply.read()

        return await self._transport.repeat(send)

    def _of_run(self, task: str, run: int) -> dict[str, str]:
        token = self._token_of(task, run)
        if token is None:
            raise LeaseLost(task, str(run))
        return {"authorization": f"Bearer {token}", "content-type": "application/json"}


class _Broken(AndonError):
    """The connection broke when it was too late to begin again."""


class _Sent:
    """A content on its way; knows whether it has begun, and what its source failed with."""

    def __init__(self, content: AsyncIterable[bytes]) -> None:
        self._content = content
        self.begun = False
        self.failure: BaseException | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.begun = True
        try:
            async for piece in self._content:
                for at in range(0, len(piece), _PIECE):
                    yield piece[at : at + _PIECE]
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failure = error
            raise


def _part(text: str) -> str:
    """One segment of a path, whatever it holds; one of dots would lead elsewhere."""
    return quote(text, safe="").replace(".", "%2E")


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
