"""Writes the artifacts that runs in this process make to where the engine keeps artifacts."""

import asyncio

from andon.artifacts.base import Artifact
from andon.engine.base import Engine
from andon.model.errors import LeaseLost
from andon.worker.context import Context
from andon.worker.files import NewArtifact, guessed_type, pieces_of


class WorkerArtifactWriter:
    """In the worker itself: straight to the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()

    async def put(self, context: Context, new: NewArtifact) -> Artifact:
        if context.stop_reason == "lease-lost":
            raise LeaseLost(context.task_id, context.task.status.run)
        artifacts = await self._engine.artifacts()
        expires_at = None
        if new.expires_in is not None:
            expires_at = self._engine.now() + round(new.expires_in * 1000)
        return await artifacts.put(
            context.task_id,
            context.run,
            new.name,
            pieces_of(new.content),
            content_type=new.content_type or guessed_type(new.name),
            expires_at=expires_at,
        )

    def put_blocking(self, context: Context, new: NewArtifact) -> Artifact:
        put = self.put(context, new)
        return asyncio.run_coroutine_threadsafe(put, self._loop).result()
