"""Makes the executors of a worker, by the kind of handler that each runs."""

from andon.worker.config import WorkerConfig
from andon.worker.executors.async_ import AsyncExecutor
from andon.worker.executors.base import Executor
from andon.worker.executors.commands import CommandExecutor
from andon.worker.executors.guard import Guard
from andon.worker.executors.processes import ProcessExecutor
from andon.worker.executors.threads import ThreadExecutor
from andon.worker.registry import Registry


def make_executors(config: WorkerConfig, registry: Registry, guard: Guard) -> dict[str, Executor]:
    """One for each kind. Raises `ConfigurationError` when a handler cannot be run as it wishes."""
    return {
        "async": AsyncExecutor(),
        "thread": ThreadExecutor(),
        "command": CommandExecutor(
            max_payload=config.max_payload, pass_env=config.pass_env, guard=guard
        ),
        **make_process_executor(config, registry, guard),
    }


def make_process_executor(
    config: WorkerConfig, registry: Registry, guard: Guard
) -> dict[str, Executor]:
    """The executor of handlers in child processes, if a type asks for that."""
    if not any(kind.kind == "process" for kind in registry):
        return {}
    executor = ProcessExecutor(
        app=config.app,
        max_payload=config.max_payload,
        keep=config.children if config.idle_children is None else config.idle_children,
        pass_env=config.pass_env,
        guard=guard,
    )
    return {"process": executor}
