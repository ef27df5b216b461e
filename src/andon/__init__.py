"""Andon, a durable task queue whose subject is the life of a task.

    from andon import Andon

    app = Andon("sqlite:///tasks.db")

    @app.task
    async def greet(name: str) -> str:
        return f"Hello, {name}"

Names are imported when they are first used, so that `import andon` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from andon import errors
    from andon.client.app import Andon
    from andon.client.drafts import Draft
    from andon.client.flow_handle import FlowHandle
    from andon.client.flows import Flow
    from andon.client.function import TaskFunction
    from andon.client.handle import TaskHandle
    from andon.client.queues import Queue
    from andon.client.recurring import Schedule
    from andon.client.views import TaskView
    from andon.engine.actor import acting_as
    from andon.engine.base import Submitted
    from andon.model.policy import Backoff
    from andon.model.words import Reason, State
    from andon.worker.context import Context, current
    from andon.worker.control import Retry, Snooze, Terminate

__all__ = [
    "Andon",
    "Backoff",
    "Context",
    "Draft",
    "Flow",
    "FlowHandle",
    "Queue",
    "Reason",
    "Retry",
    "Schedule",
    "Snooze",
    "State",
    "Submitted",
    "TaskFunction",
    "TaskHandle",
    "TaskView",
    "Terminate",
    "acting_as",
    "current",
    "errors",
]

_HOMES = {
    "Andon": "andon.client.app",
    "Backoff": "andon.model.policy",
    "Context": "andon.worker.context",
    "Draft": "andon.client.drafts",
    "Flow": "andon.client.flows",
    "FlowHandle": "andon.client.flow_handle",
    "Queue": "andon.client.queues",
    "Reason": "andon.model.words",
    "Retry": "andon.worker.control",
    "Schedule": "andon.client.recurring",
    "Snooze": "andon.worker.control",
    "State": "andon.model.words",
    "Submitted": "andon.engine.base",
    "TaskFunction": "andon.client.function",
    "TaskHandle": "andon.client.handle",
    "TaskView": "andon.client.views",
    "Terminate": "andon.worker.control",
    "acting_as": "andon.engine.actor",
    "current": "andon.worker.context",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("andon.errors")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'andon' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
