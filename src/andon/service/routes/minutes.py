"""What happened in each of the last minutes."""

from typing import Annotated, Any, Literal

import msgspec
from litestar import Router, get
from litestar.params import QueryParameter

from andon.lifecycle.minutes import MOST_MINUTES, minutes_document
from andon.model.minutes import MinuteHistory
from andon.service.calls import Call


class SeriesShown(msgspec.Struct, kw_only=True):
    """The minutes of one queue or type in which something happened, waited or ran."""

    name: str
    points: list[dict[str, Any]]


class MinutesShown(msgspec.Struct, kw_only=True):
    """The last minutes that are over. A minute that no timekeeper rolled up is `missing`."""

    since: str
    until: str
    missing: list[str]
    bands_ms: list[int]
    whole: bool
    series: list[SeriesShown]


def _shown(found: MinuteHistory) -> MinutesShown:
    return msgspec.convert(minutes_document(found), MinutesShown)


@get("/", summary="Get the last minutes")
async def get_minutes(
    request: Call,
    *,
    queue: Annotated[str | None, QueryParameter(description="Of this queue.")] = None,
    by: Annotated[
        Literal["queue", "type"], QueryParameter(description="A series for each of what.")
    ] = "queue",
    minutes: Annotated[
        int, QueryParameter(ge=1, le=MOST_MINUTES, description="How many, the newest.")
    ] = 60,
) -> MinutesShown:
    """What was submitted, started, finished and failed in each of the last minutes, what was
    pending and active at their ends, and how long runs waited and ran, as one number for each band.

    Of a queue, counts are exact and bands are of a bounded sample; by type, all is of the sample.
    `whole` says that no sample was cut short. Minutes that no timekeeper rolled up are in
    `missing`; in minutes that are in neither list nothing happened."""
    engine = request.service.engine
    if by == "type":
        request.need("queues:read:*")
        return _shown(await engine.minutes(None, minutes, by_type=True))
    request.need(f"queues:read:{queue or '*'}")
    return _shown(await engine.minutes(queue, minutes))


router = Router("/api/v1/minutes", route_handlers=[get_minutes], tags=["queues"])
