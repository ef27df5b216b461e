"""How often what is looked at is read: as often as is wanted, within what all of it may cost."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import Any

import pytest

from andon.dashboard.access import Visitor
from andon.dashboard.live import Live, Viewer
from andon.dashboard.pages.frame import Place
from andon.dashboard.patience import (
    MOST_REST_S,
    RESTS,
    RESTS_LOOKING,
    Budget,
    cost_of,
    fair_share,
    told_age,
)
from andon.dashboard.source import Source
from andon.testing import run_virtual

from .kit import NoReader

ANN = Place("", Visitor(name="", scopes=("*",)))


@pytest.mark.parametrize(
    ("wants", "most"),
    [
        ([], inf),
        ([4.0], inf),
        ([12.0], 12.0 / 1.2),
        ([1.0, 20.0], 9.0),
        ([6.0, 6.0], 5.0),
        ([1.0, 1.0, 30.0, 40.0], 4.0),
        ([5.0, 5.0], inf),
    ],
)
def test_who_wants_little_has_it_and_leaves_the_rest_to_the_others(wants: list[float], most: float):
    assert fair_share(wants, 10.0) == most
    assert sum(min(one, most) for one in wants) <= 10.0


@pytest.mark.parametrize(
    ("every", "cost", "rest"),
    [
        (0.5, 0.0, 0.5),
        (0.5, 0.008, 0.5),
        (0.5, 0.05, 3.0),
        (3.0, 0.05, 3.0),
        (15.0, 0.5, 30.0),
        (0.5, 9.0, MOST_REST_S),
    ],
)
def test_a_reading_is_followed_by_sixty_times_as_long_a_rest(
    every: float, cost: float, rest: float
):
    budget = Budget()
    assert budget.rest("page", every, RESTS, cost) == every  # it may have waited for something else
    assert budget.rest("page", every, RESTS, cost) == pytest.approx(rest)


@pytest.mark.parametrize(
    ("elapsed", "busy", "cost"),
    [(0.0, 0.0, 0.0), (0.1, 0.1, 0.1), (0.1, 0.0, 0.025), (0.6, 0.2, 0.3), (0.1, 0.5, 0.1)],
)
def test_a_reading_costs_what_the_process_was_busy_and_a_part_of_what_it_waited(
    elapsed: float, busy: float, cost: float
):
    assert cost_of(elapsed, busy) == pytest.approx(cost)


def test_one_reading_that_had_to_wait_delays_nothing():
    budget = Budget()
    for cost in (0.001, 5.0, 0.001):
        assert budget.rest("page", 0.5, RESTS, cost) == 0.5


def test_all_that_is_looked_at_has_one_budget_and_what_is_cheap_does_not_pay_for_what_is_costly():
    budget = Budget()
    costs = {"cheap": 0.005, "costly": 0.1, "costly too": 0.2}
    for _ in range(2):
        for topic, cost in costs.items():
            budget.rest(topic, 1.0, RESTS, cost)
    cheap, costly, too = (budget.rest(topic, 1.0, RESTS, cost) for topic, cost in costs.items())
    assert cheap == 1.0
    assert 0.005 / cheap + 0.1 / costly + 0.2 / too == pytest.approx(1 / RESTS)
    budget.forget("costly too")
    assert 0.005 + 0.1 / budget.rest("costly", 1.0, RESTS, 0.1) == pytest.approx(1 / RESTS)


def test_what_is_looked_for_has_a_budget_of_its_own_and_is_found_soon():
    budget = Budget()
    for _ in range(2):
        assert budget.rest("search", 0.5, RESTS_LOOKING, 0.5) == 0.5
        assert budget.rest("page", 0.5, RESTS, 0.008) == 0.5


@pytest.mark.parametrize(
    ("every", "rest", "told"),
    [(0.5, 0.5, 0), (0.5, 1.0, 0), (0.5, 1.2, 2), (0.5, 4.0, 5), (3.0, 4.0, 0), (3.0, 7.0, 15),
     (0.5, 60.0, 60), (15.0, 20.0, 0)],
)  # fmt: skip
def test_an_age_is_told_where_it_is_more_than_usual(every: float, rest: float, told: int):
    assert told_age(every, rest) == told


class Costly(Source):
    """A number that takes some time to be read. Notes when it is."""

    every = 0.5

    def __init__(self, name: str, takes: float) -> None:
        super().__init__("")
        self.name = name
        self.takes = takes
        self.value = 0
        self.read_at: list[float] = []

    def is_for(self, visitor: Visitor) -> bool:
        return True

    async def read(self, reader: Any) -> int:
        self.read_at.append(asyncio.get_running_loop().time())
        value = self.value
        await asyncio.sleep(self.takes)
        return value

    def draw(self, place: Place, seen: int) -> Iterable[Any]:
        yield f'<p id="{self.name}">{seen}</p>'

    @property
    def reads(self) -> int:
        return len(self.read_at)


def virtually(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test in virtual time."""

    def run() -> None:
        async def whole() -> None:
            await test()

        run_virtual(whole())

    run.__name__ = test.__name__
    return run


def sent(live: Live, viewer: Viewer) -> str:
    return b"".join(live.news(viewer)).decode()


@virtually
async def test_a_costly_page_is_read_seldom_says_so_and_a_cheap_one_beside_it_often():
    live = Live(NoReader())  # type: ignore[arg-type]
    costly, cheap = Costly("costly", 0.8), Costly("cheap", 0.001)
    one = live.join(ANN, {"costly": costly})
    other = live.join(ANN, {"cheap": cheap})
    await asyncio.sleep(1_000)
    assert costly.reads * cost_of(0.8, 0.0) <= 1_000 / RESTS + 1
    assert costly.reads >= 70
    assert cheap.reads > 1_900
    assert "event: age\ndata: 15" in sent(live, one)
    assert "event: age" not in sent(live, other)
    for viewer in (one, other):
        live.leave(viewer)


@virtually
async def test_whoever_comes_to_a_costly_page_has_it_read_at_once_and_is_sent_nothing_older():
    live = Live(NoReader())  # type: ignore[arg-type]
    costly, cheap = Costly("costly", 1.0), Costly("cheap", 0.001)
    stays = live.join(ANN, {"costly": costly})
    await asyncio.sleep(30)
    reads, costly.value = costly.reads, 1
    comes = live.join(ANN, {"costly": costly, "cheap": cheap})
    assert "fragment" not in sent(live, comes)
    await asyncio.sleep(0.5)  # the cheap one is read by now
    assert "fragment" not in sent(live, comes)
    await asyncio.sleep(1)
    assert costly.reads == reads + 1
    news = sent(live, comes)
    assert '<p id="costly">1</p>' in news
    assert '<p id="cheap">0</p>' in news
    assert '<p id="costly">1</p>' in sent(live, stays)
    for viewer in (stays, comes):
        live.leave(viewer)


@virtually
async def test_whoever_comes_while_it_is_read_waits_for_the_next_reading():
    live = Live(NoReader())  # type: ignore[arg-type]
    costly = Costly("costly", 1.0)
    stays = live.join(ANN, {"costly": costly})
    await asyncio.sleep(0.9)
    costly.value = 1  # the reading under way began before
    comes = live.join(ANN, {"costly": costly})
    await asyncio.sleep(0.2)
    assert '<p id="costly">0</p>' in sent(live, stays)
    assert "fragment" not in sent(live, comes)
    await asyncio.sleep(1)
    assert '<p id="costly">1</p>' in sent(live, comes)
    for viewer in (stays, comes):
        live.leave(viewer)


@virtually
async def test_whoever_comes_just_after_a_reading_is_sent_what_has_changed_since():
    reader = NoReader()
    live = Live(reader)  # type: ignore[arg-type]
    costly = Costly("costly", 0.1)  # read every half second, were it not costly
    stays = live.join(ANN, {"costly": costly})
    await asyncio.sleep(0.2)
    costly.value = 1
    comes = [live.join(ANN, {"costly": costly}) for _ in range(3)]
    assert '<p id="costly">0</p>' in sent(live, comes[0])
    await asyncio.sleep(0.5)
    assert (costly.reads, reader.forgot) == (2, 1), "all of them share a reading, of nothing old"
    for viewer in (stays, *comes):
        assert '<p id="costly">1</p>' in sent(live, viewer)
        live.leave(viewer)
