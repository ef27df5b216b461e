"""Default names of task types and applications, which stay the same across processes."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from andon.worker.registry import Registry

_SCRIPTS = frozenset({"__main__", "__andon_main__"})
"""Names under which a script runs: the second in a worker's child process."""

_LOCAL = re.compile(r"<locals>\.")


def default_name(function: Callable[..., Any]) -> str:
    """`module.qualname`; a script counts under the name it is imported by."""
    module = function.__module__
    if module in _SCRIPTS:
        module = _script_name(sys.modules[module]) or module
    return f"{module}.{_LOCAL.sub('', function.__qualname__)}"


def _script_name(script: ModuleType) -> str:
    spec = getattr(script, "__spec__", None)
    if spec is not None:
        return spec.name.removesuffix(".__main__")
    file = getattr(script, "__file__", None)
    return Path(file).stem if file else ""


def location_of(app: object, registry: Registry) -> str:
    """`module:attribute` under which the application can be imported; "" if there is none."""
    for module in _modules(registry):
        for attribute, value in list(vars(module).items()):
            if value is app:
                return f"{module.__name__}:{attribute}"
    return ""


def _modules(registry: Registry) -> Iterator[ModuleType]:
    """Every module, those with the application's handlers first."""
    named = dict.fromkeys(getattr(kind.handler, "__module__", "") for kind in registry)
    for name in (*named, *list(sys.modules)):
        module = sys.modules.get(name)
        if isinstance(module, ModuleType):
            yield module
