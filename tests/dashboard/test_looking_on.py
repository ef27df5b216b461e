"""Lists that no index holds: looked for on and on while somebody looks, and cheap from then on."""

import asyncio

import pytest

from andon import Andon
from andon.contract.queries import Query
from andon.contract.requests import ClaimRequest
from andon.dashboard.looking_on import LookingOn
from andon.dashboard.reading import Reader
from andon.dashboard.reading_letters import letters
from andon.dashboard.views.bodies import Redaction
from andon.dashboard.views.tasks import TaskFilter
from andon.engine.base import Engine, Submission
from andon.lifecycle.commands import Fail
from andon.model.task import TaskError
from andon.model.words import State

pytestmark = pytest.mark.usefixtures("no_patience")

OTHERS = 2_500
"""More than one call of a store looks at."""


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading asks the store once."""
    monkeypatch.setattr("andon.dashboard.looking_on.FIRST_LOOK_S", 0.0)
    monkeypatch.setattr("andon.dashboard.looking_on.LOOK_S", 0.0)


class Looked:
    """An engine in memory with a rare task that is older than many others."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.reader = Reader(self._engine, Redaction(()), "")

    async def _engine(self) -> Engine:
        return self.engine

    async def submit(self, *ids: str, name: str) -> None:
        for start in range(0, len(ids), 100):
            some = [Submission(id=one, name=name, delay=3600) for one in ids[start : start + 100]]
            await self.engine.submit(some)

    async def until_over(self, asked: TaskFilter) -> tuple[LookingOn, list[list[str]]]:
        looking, seen = LookingOn(asked), []
        while True:
            view = await looking.read(self.reader)
            seen.append([row.id for row in view.rows])
            if looking.is_over:
                assert not view.is_cut
                return looking, seen
            assert view.is_cut


async def test_what_is_rare_comes_by_itself(monkeypatch: pytest.MonkeyPatch):
    async with Andon("memory://") as app:
        looked = Looked(await app.engine())
        await looked.submit("old", name="rare")
        await looked.submit(*(f"t{n}" for n in range(OTHERS)), name="other")
        looking, seen = await looked.until_over(TaskFilter(name="rare"))
        assert seen[0] == []
        assert seen[-1] == ["old"]
        calls = count_calls(monkeypatch, looked.engine)
        await looked.submit("new", name="rare")
        view = await looking.read(looked.reader)
        assert [row.id for row in view.rows] == ["new", "old"]
        assert calls == [1]  # however many tasks there are


async def test_what_is_no_longer_so_leaves_the_list():
    async with Andon("memory://") as app:
        looked = Looked(await app.engine())
        await looked.submit("one", "two", name="rare")
        await looked.submit(*(f"t{n}" for n in range(OTHERS)), name="other")
        looking, seen = await looked.until_over(
            TaskFilter(name="rare", states=(State.SCHEDULED,), order="oldest")
        )
        assert seen[-1] == ["one", "two"]
        await looked.engine.cancel(["one"])
        assert [row.id for row in (await looking.read(looked.reader)).rows] == ["two"]


async def test_what_has_an_index_is_read_at_once(monkeypatch: pytest.MonkeyPatch):
    async with Andon("memory://") as app:
        looked = Looked(await app.engine())
        await looked.submit(*(f"t{n}" for n in range(OTHERS)), name="other")
        calls = count_calls(monkeypatch, looked.engine)
        looking = LookingOn(TaskFilter(name="other"))
        for _ in range(3):
            view = await looking.read(looked.reader)
            assert looking.is_over
            assert len(view.rows) == 50
        assert calls == [3]


async def test_whoever_waits_for_a_page_does_not_wait_for_who_looks_on(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("andon.dashboard.looking_on.LOOK_S", 60.0)
    async with Andon("memory://") as app:
        looked = Looked(await app.engine())
        await looked.submit(*(f"t{n}" for n in range(3 * OTHERS)), name="other")
        looking = LookingOn(TaskFilter(name="rare"))
        await looking.read(looked.reader)
        calls = count_calls(monkeypatch, looked.engine)
        with looked.reader.page():
            await looking.read(looked.reader)
        assert (calls, looking.is_over) == ([1], False)
        await looking.read(looked.reader)
        assert looking.is_over


async def fail(engine: Engine, *ids: str) -> None:
    """Tasks that become dead letters."""
    options = {"max_retries": 0, "dead_letter": "save"}
    await engine.submit([Submission(id=one, name="other", options=options) for one in ids])
    request = ClaimRequest(
        worker="w", token="t", queues=("default",), limit=len(ids), lease_ms=30_000
    )
    for task in await engine.claim(request):
        error = TaskError(type="shop.Failed", message=f"{task.id} has failed")
        await engine.report(task, Fail(error=error, retryable=False))


async def test_a_look_at_dead_letters_gives_way_to_whoever_waits_for_a_page_and_is_whole_afterwards(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("andon.dashboard.reading_letters.MAX_BATCH", 2)
    monkeypatch.setattr("andon.dashboard.reading_letters.LOOK", 5)
    monkeypatch.setattr("andon.dashboard.reading._GIVES_WAY_S", 60.0)
    async with Andon("memory://") as app:
        looked = Looked(await app.engine())
        await fail(looked.engine, *(f"t{n}" for n in range(7)))
        calls = count_calls(monkeypatch, looked.engine)
        with looked.reader.page():
            reading = asyncio.ensure_future(letters(looked.reader, ""))
            await asyncio.sleep(0.01)
            assert calls == [1]
        view = await reading
        assert calls == [3]
        assert (view.found.looked, view.found.whole) == (5, False)
        assert [group.count for group in view.found.groups] == [5]


def count_calls(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> list[int]:
    """How often the engine is asked to find tasks, from now on."""
    calls, find = [0], engine.find

    async def counted(query: Query) -> object:
        calls[0] += 1
        return await find(query)

    monkeypatch.setattr(engine, "find", counted)
    return calls
