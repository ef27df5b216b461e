"""`ctx.artifact` in a child process: the file goes to the worker by its path."""

import asyncio
import os
import tempfile
from collections.abc import Callable

from andon.artifacts.base import Artifact
from andon.model.errors import AndonError
from andon.worker.context import Context
from andon.worker.executors import frames
from andon.worker.files import Content, pieces_of


class ChildFiles:
    """Asks the worker to keep a file, and waits until it has. `ask` sends a frame and gives the
    answer."""

    def __init__(self, ask: Callable[[frames.Keep], frames.Kept]) -> None:
        self._ask = ask

    async def put(
        self,
        context: Context,
        name: str,
        content: Content,
        content_type: str,
        expires_in: float | None,
    ) -> Artifact:
        if isinstance(content, os.PathLike):
            path = os.path.abspath(content)  # noqa: ASYNC240, PTH100 - looks at no file
            return await asyncio.to_thread(self._kept, path, name, content_type, expires_in)
        with tempfile.NamedTemporaryFile(prefix="andon-artifact-") as file:
            async for piece in pieces_of(content):
                file.write(piece)
            file.flush()
            return await asyncio.to_thread(self._kept, file.name, name, content_type, expires_in)

    def put_blocking(
        self,
        context: Context,
        name: str,
        content: Content,
        content_type: str,
        expires_in: float | None,
    ) -> Artifact:
        return asyncio.run(self.put(context, name, content, content_type, expires_in))

    def _kept(self, path: str, name: str, content_type: str, expires_in: float | None) -> Artifact:
        answer = self._ask(frames.Keep(path, name, content_type, expires_in))
        if answer.artifact is None:
            raise AndonError(answer.error)
        return answer.artifact
