"""About the store, and the service itself."""

import asyncio
from typing import Any

import msgspec
from litestar import Router, get

from andon.lifecycle.profiles import PROFILES
from andon.lifecycle.rendering import names_of
from andon.model.errors import AndonError
from andon.model.words import State
from andon.service.answers import Health, ProfileNames
from andon.service.calls import Call
from andon.service.problems import Problem

READY_S = 2.0
"""A store that answers later than this is not ready."""


@get("/api/v1/storage", tags=["storage"], summary="Describe the store")
async def storage(request: Call) -> dict[str, Any]:
    """What the store is, what it holds, and what survives which accident."""
    request.need("admin:storage")
    return msgspec.structs.asdict(await request.service.engine.info())


@get("/api/v1/profiles", tags=["storage"], summary="List profiles")
async def profiles(request: Call) -> list[ProfileNames]:
    """The profiles that `as` takes, and how each names the states."""
    stored = [state for state in State if state is not State.UNSUBMITTED]
    return [
        ProfileNames(
            profile.name, {state.value: list(names_of(profile, state)) for state in stored}
        )
        for profile in PROFILES.values()
    ]


@get("/healthz", tags=["service"], summary="Is it alive?")
async def healthy(request: Call) -> Health:
    """Answered as long as the process can answer at all."""
    return Health("ok")


@get("/readyz", tags=["service"], summary="Is it ready?")
async def ready(request: Call) -> Health:
    """200 when the store answers in time; 503 when it does not, or the service is stopping."""
    service = request.service
    if service.stopping.is_set():
        raise _not_ready("The service is stopping.")
    try:
        async with asyncio.timeout(READY_S):
            await service.engine.events_end()
    except TimeoutError:
        raise _not_ready(f"The store has not answered within {READY_S:g} s.") from None
    except AndonError as error:
        raise _not_ready(str(request.told(error))) from error
    return Health("ok")


def _not_ready(detail: str) -> Problem:
    return Problem(503, "not-ready", "Not ready", detail, headers={"Retry-After": "1"})


@get("/metrics", tags=["service"], summary="Metrics", media_type="text/plain")
async def metrics(request: Call) -> bytes:
    """The metrics of this process and its store, for Prometheus."""
    request.need("metrics:read")
    request.answer_type = b"text/plain; version=0.0.4; charset=utf-8"
    return await request.service.metrics.text(request.service.engine)


@get("/openapi.json", tags=["service"], summary="This API", media_type="application/json")
async def openapi(request: Call) -> bytes:
    """The OpenAPI document of this service."""
    return request.service.openapi


router = Router(
    "/",
    route_handlers=[
        storage,
        profiles,
        healthy,
        ready,
        metrics,
        openapi,
    ],
)
