"""Whether the service is alive, and which release it is."""

from importlib.metadata import version
from typing import Any

from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.table import route

_SOURCE = "https://pypi.org/project/andon/"


@route("ping", "GET", "/ping")
async def ping(asked: Asked, _: None) -> dict[str, Any]:
    """Say that the service lives, and for how many seconds it has."""
    return {"alive": True, "uptime": asked.shared.uptime()}


@route("version", "GET", "/__version__")
async def version_of(asked: Asked, _: None) -> dict[str, str]:
    """Say which release this is."""
    release = version("andon")
    return {"version": release, "commit": "", "source": _SOURCE, "build": ""}


@route("heartbeat", "GET", "/__heartbeat__")
async def heartbeat(asked: Asked, _: None) -> dict[str, Any]:
    """Say that the store answers too."""
    await asked.engine.queues()
    return {}


@route("lbheartbeat", "GET", "/__lbheartbeat__")
async def lbheartbeat(asked: Asked, _: None) -> dict[str, Any]:
    """Say that the process answers."""
    return {}


ROUTES = [ping, version_of, heartbeat, lbheartbeat]
