"""Andon, as the others are run: one worker process, which is its scheduler too."""

import asyncio
import sys

from andon import Andon, Schedule
from bearing_sides import shape

app = Andon(shape.URL, name="side", release="1")


@app.task(name="member", lease=shape.SOON_S)
def member(group: int, number: int) -> int:
    shape.member(group, number)
    return number


@app.task(name="closing", lease=shape.SOON_S)
def closing(numbers: list[int], group: int) -> None:
    shape.line("closing", group)


@app.task(
    name="tick", lease=shape.SOON_S, schedules=[Schedule("tick-each", every=1, catch_up="all")]
)
def tick() -> None:
    shape.tick()


def groups(count: int) -> None:
    asyncio.run(submit(count))


async def submit(count: int) -> None:
    async with app:
        for group in range(count):
            with app.flow("side") as flow:
                members = [flow.add(member, group, number) for number in range(shape.MEMBERS)]
                flow.add(closing, flow.group(*members).results, group)
            await flow.submit()


def worker() -> list[str]:
    return [
        sys.executable, "-m", "andon.cli", "worker", "bearing_sides.andon", "--concurrency",
        str(shape.AT_ONCE),
    ]  # fmt: skip


scheduler = None
