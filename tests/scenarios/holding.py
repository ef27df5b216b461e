"""Tasks whose handlers wait at a gate, one kind for each way in which a handler runs."""

from typing import Any

from andon import TaskHandle

from .apps.native import hold, hold_command, hold_in_process, hold_in_thread
from .stage import Gate, Scene

KINDS = (hold, hold_in_thread, hold_in_process, hold_command)


async def held(
    scene: Scene, kind: Any = hold, args: dict[str, Any] | None = None, **options: Any
) -> tuple[TaskHandle[Any], Gate]:
    """A task that runs, and the gate that its handler waits at."""
    gate = scene.gate()
    handle = await kind.options(**options).submit(gate=gate.path, **(args or {}))
    await gate.begun()
    return handle, gate
