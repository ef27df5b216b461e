"""Which of its sessions a process uses for what."""

import asyncio

import asyncpg

from andon.stores.postgres.connections import Connections
from andon.stores.postgres.location import parse

_SESSION = "SELECT pg_backend_pid()"


async def _as_it_is(_: asyncpg.Connection) -> None:
    """No schema is looked for."""


async def test_what_is_seldom_done_leaves_the_session_alone_that_works_often(url: str) -> None:
    connections = Connections(parse(url), check=_as_it_is)

    async def session(*, often: bool) -> int:
        [(pid,)] = await connections.do(_SESSION, often=often)
        return pid

    try:
        made = await asyncio.gather(*(session(often=True) for _ in range(3)))
        assert len(set(made)) == 3
        often = await session(often=True)
        seldom = await session(often=False)
        assert seldom != often
        for _ in range(3):
            assert await session(often=True) == often
            assert await session(often=False) == seldom
        both = await asyncio.gather(session(often=True), session(often=False))
        assert both == [often, seldom]
    finally:
        await connections.close()
