"""The last minutes over HTTP: the documented route, the engine's own, and the command line."""

from pathlib import Path
from typing import Any

import pytest

from andon.client.services import service_at
from andon.engine.local import LocalEngine
from andon.lifecycle.minutes import MINUTE_MS
from andon.model.minutes import MinuteBase, MinuteCounts, MinuteRow

from .conftest import make_app
from .kit import Running, serving, with_minute


async def plant(engine: LocalEngine) -> None:
    """A minute as a timekeeper would have written it, and another that is missing before it."""
    now = engine.now()
    end = now // MINUTE_MS * MINUTE_MS
    base = MinuteBase(end + 1_000, {}, {}, "")
    bands = (0, 3, *[0] * 10)
    counts = MinuteCounts(4, 3, 2, 1, 5, 6, 3, bands, bands)
    row = MinuteRow(
        end // MINUTE_MS - 1,
        end - MINUTE_MS,
        end,
        end - MINUTE_MS,
        {"q": counts, "r": MinuteCounts(1)},
        {"mail": MinuteCounts(finished=2, failed=1, sampled=3, wait=bands, run=bands)},
        whole=False,
    )
    await with_minute(engine, base, row)


def got(running: Running, **query: Any) -> dict[str, Any]:
    with running.client() as client:
        reply = client.get("/api/v1/minutes", params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()


def test_minutes_by_queue_and_by_type(tmp_path: Path) -> None:
    with serving(make_app(f"sqlite:///{tmp_path}/a.db"), timekeeper=False) as running:
        running.call(plant(running.service.engine))
        found = got(running, minutes=2)
        assert [one["name"] for one in found["series"]] == ["q", "r"]
        (point,) = found["series"][0]["points"]
        assert (point["submitted"], point["started"], point["finished"]) == (4, 3, 2)
        assert (point["failed"], point["pending"], point["active"]) == (1, 5, 6)
        assert point["wait"][1] == point["run"][1] == point["sampled"] == 3
        assert found["missing"] == [found["since"]]
        assert found["whole"] is False
        assert len(found["bands_ms"]) == 11
        assert [one["name"] for one in got(running, queue="r")["series"]] == ["r"]
        assert [one["name"] for one in got(running, by="type")["series"]] == ["mail"]


async def test_the_engine_over_http_gives_the_same(tmp_path: Path) -> None:
    with serving(make_app(f"sqlite:///{tmp_path}/a.db"), timekeeper=False) as running:
        running.call(plant(running.service.engine))
        engine = service_at(running.url)
        await engine.open()
        try:
            queries: list[dict[str, Any]] = [{}, {"name": "q"}, {"by_type": True}]
            for query in queries:
                local = running.call(running.service.engine.minutes(minutes=2, **query))
                assert await engine.minutes(minutes=2, **query) == local
        finally:
            await engine.close()


@pytest.mark.parametrize("query", [{"minutes": 0}, {"minutes": 1_441}, {"by": "colour"}])
def test_what_cannot_be_is_refused(query: dict[str, Any], tmp_path: Path) -> None:
    with serving(make_app(f"sqlite:///{tmp_path}/a.db")) as running, running.client() as client:
        assert client.get("/api/v1/minutes", params=query).status_code == 422
