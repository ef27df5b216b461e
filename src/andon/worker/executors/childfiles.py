"""`ctx.artifact` in a child process: the file goes to the worker by its path."""

import asyncio
import os
import tempfile
from collections.abc import Callable

from andon.artifacts.base import Artifact
from andon.model.errors import AndonError
from andon.worker.context import Context
from andon.worker.executors import frames
from andon.worker.files import NewArtifact, pieces_of


class ChildFiles:
    """Asks the worker to keep a file, and waits until it has. `ask` sends a frame and gives the
    answer."""

    def __init__(self, ask: Callable[[frames.Keep], frames.Kept]) -> None:
        self._ask = ask

    async def put(self, context: Context, new: NewArtifact) -> Artifact:
        if isinstance(new.content, os.PathLike):
            path = os.path.abspath(new.content)  # noqa: ASYNC240, PTH100 - looks at no file
            return await asyncio.to_thread(self._kept, path, new)
        with tempfile.NamedTemporaryFile(prefix="andon-artifact-") as file:
            async for piece in pieces_of(new.content):
                file.write(piece)
            file.flush()
            return await asyncio.to_thread(self._kept, file.name, new)

    def put_blocking(self, context: Context, new: NewArtifact) -> Artifact:
        return asyncio.run(self.put(context, new))

    def _kept(self, path: str, new: NewArtifact) -> Artifact:
        answer = self._ask(frames.Keep(path, new.name, new.content_type, new.expires_in))
        if answer.artifact is None:
            raise AndonError(answer.error)
        return answer.artifact
