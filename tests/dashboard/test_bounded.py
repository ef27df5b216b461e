"""What pages ask of a store does not grow with its tasks: query plans where there are some, and the
commands of a server where there are none."""

import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from conformance.kit import Kit, opened
from servers import Servers
from servers.redis import RedisServer

from andon import Andon
from andon.contract.limits import MAX_BATCH, SCAN_BUDGET
from andon.contract.queries import Query
from andon.lifecycle.commands import Fail
from andon.model.headers import FLOW_TAG
from andon.model.task import TaskError
from andon.model.words import State
from andon.stores.sqlite import connection, open_file
from andon.stores.sqlite.statements import LIFE

FINAL = Fail(error=TaskError(message="Order 7 not found", type="ValueError"), retryable=False)

PAGES = (
    "/",
    "/tasks",
    "/tasks?state=failed",
    "/tasks?state=failed&name=needle",
    "/tasks?state=failed&state=stalled&name=needle&queue=default",
    "/tasks?state=pending&queue=default&order=oldest",
    "/tasks?state=scheduled",
    "/tasks?state=scheduled&order=newest",
    "/tasks?key=k",
    "/tasks?group=g",
    "/tasks?worker=worker",
    "/tasks?tag=andon-flow",
    "/tasks/needle-1",
    "/dead-letters",
    "/dead-letters?queue=default",
    "/dead-letters/list",
    "/queues",
    "/queues/default",
    "/types",
    "/types/other",
    "/workers",
    "/schedules",
    "/flows",
    "/flows/g",
    "/audit",
    "/doctor",
    "/search?q=needle-1",
)
"""Each has an index, or a counter, for all that it asks. (A name alone, and on Redis how ids begin,
have none: a page of those is cut after a time.)"""

BY_ID = ("/tasks?id=needle-", "/tasks?id=t-&order=oldest", "/search?q=needle-")
_LARGE = r"task|definition|event|listed|result|note|stub"


async def fill(kit: Kit, tasks: int) -> None:
    """Some failures and a flow, then so many that wait."""
    if await kit.get("needle-1") is None:
        for number in range(12):
            name = "needle" if number == 0 else "other"
            task = await kit.active(f"{name}-{number + 1}", name=name, key="k" if number else None)
            await kit.moved(task, FINAL)
        await kit.submit("g:0", group="g", tags=(FLOW_TAG,), run_at=kit.store.now() + 10**9)
        await kit.submit("g:1", group="g", run_at=kit.store.now() + 10**9)
        await kit.active("runs")
    counts = (await kit.stats()).counts
    made = counts.get(State.PENDING, 0) + counts.get(State.SCHEDULED, 0)
    for start in range(made, tasks, 100):
        later = kit.store.now() + 10**9
        some = [
            kit.record(f"t-{n}", run_at=later + n if n % 2 else None)
            for n in range(start, min(start + 100, tasks))
        ]
        await kit.create(*some)


@asynccontextmanager
async def looking(url: str) -> AsyncIterator[Callable[[str], Any]]:
    """How to look at a page of the store's board, which has read nothing before."""
    async with Andon(url) as app:

        async def look(path: str) -> None:
            way = httpx.ASGITransport(app.board())
            async with httpx.AsyncClient(transport=way, base_url="http://127.0.0.1") as http:
                answer = await http.get(path, follow_redirects=True)
            assert answer.status_code == 200, (path, answer.text[:1_000])

        yield look


async def test_no_page_scans_a_table_of_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, str] = {}
    now = [""]
    connect = connection.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*arguments, **options)
        db.set_trace_callback(lambda sql: asked.setdefault(sql, now[0]))
        return db

    url = f"sqlite:///{tmp_path}/tasks.db"
    async with opened(url) as kit:
        await fill(kit, 300)
    monkeypatch.setattr(open_file, "connect", traced)
    async with looking(url) as look:
        asked.clear()
        for now[0] in (*PAGES, *BY_ID):
            await look(now[0])
    read = {sql: path for sql, path in asked.items() if sql.upper().startswith(("SELECT", "WITH"))}
    assert len(read) > 40
    assert set(read.values()) >= {"/", "/doctor", "/flows/g", "/tasks?id=needle-"}
    db = sqlite3.connect(tmp_path / "tasks.db")
    scans = [
        (path, step[3], sql)
        for sql, path in read.items()
        for step in db.execute(f"EXPLAIN QUERY PLAN {sql}")
        if _scans(sql, step[3]) and sql != LIFE.what_others_wrote  # one row, the newest of its key
    ]
    db.close()
    assert scans == []


def _scans(sql: str, step: str) -> bool:
    """Whether a step of a plan goes through all of a table that grows with the tasks."""
    found = re.match(r"SCAN (\w+)", step)
    if found is None:
        return False
    aliased = re.search(rf"\b({_LARGE}) (?:AS )?{found[1]}\b", sql)
    return re.fullmatch(_LARGE, found[1]) is not None or aliased is not None


async def test_no_page_scans_a_table_of_postgresql(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, tuple[str, tuple[Any, ...]]] = {}
    now = [""]
    connect = asyncpg.connect

    def note(one: Any) -> None:
        asked.setdefault(one.query, (now[0], one.args))

    async def logged(*arguments: Any, **options: Any) -> Any:
        db = await connect(*arguments, **options)
        db.add_query_logger(note)
        return db

    url = servers.fresh_url("postgres", tmp_path)
    async with opened(url) as kit:
        await fill(kit, 4_000)
    db = await asyncpg.connect(url.partition("?")[0])
    schema = url.partition("namespace=")[2]
    # As many failures of another name would stand there; a table of few rows is read whole.
    await db.execute(
        f"INSERT INTO {schema}.listed SELECT 'failed other', generate_series(1000000, 1004000)"
    )
    for table in ("task", "definition", "event", "listed"):
        await db.execute(f'ANALYZE "{schema}".{table}')
    monkeypatch.setattr(asyncpg, "connect", logged)
    async with looking(url) as look:
        asked.clear()
        for now[0] in (*PAGES, *BY_ID):
            await look(now[0])
    read = {
        sql: at
        for sql, at in asked.items()
        if sql.lstrip("(").upper().startswith(("SELECT", "WITH"))
    }
    paths = {path for path, _ in read.values()}
    assert paths >= {"/", "/doctor", "/flows/g", "/tasks?id=needle-"}
    scans: list[tuple[str, str]] = []
    for sql, (path, arguments) in read.items():
        plan = "\n".join(row[0] for row in await db.fetch(f"EXPLAIN {sql}", *arguments))
        if re.search(rf"Seq Scan on ({_LARGE})\b", plan):
            scans.append((path, plan))
    await db.close()
    assert scans == []


async def test_no_page_asks_more_of_redis_with_more_tasks(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "server")
    server.start()
    try:
        url = server.url("bounded")
        found: list[dict[str, int]] = []
        for tasks in (2_000, 5_000):
            async with opened(url) as kit:
                await fill(kit, tasks)
            async with looking(url) as look:
                for path in PAGES:  # what is read once by a process
                    await look(path)
                found.append({path: await commands_of(server, look, path) for path in PAGES})
            async with opened(url) as kit:  # a look for what nothing is like: one call
                before = calls(server)
                await kit.store.find(Query(name="nothing", limit=1))
                look_costs = calls(server) - before
    finally:
        server.stop()
    few, many = found
    assert look_costs < SCAN_BUDGET
    more = {path: (few[path], many[path]) for path in PAGES if many[path] > 1.1 * few[path] + 10}
    assert more == {}
    assert max(many.values()) < 2_000


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis", "postgres"])
async def test_dead_letters_of_a_queue_are_not_looked_for_among_those_of_others(
    kind: str, servers: Servers, tmp_path: Path
) -> None:
    async with opened(servers.fresh_url(kind, tmp_path)) as kit:
        await kit.moved(await kit.active("mine", queue="mine"), FINAL)
        for _ in range(SCAN_BUDGET // MAX_BATCH + 1):  # all newer
            await kit.submit_many(MAX_BATCH, queue="others")
            changes = [
                kit.change(task, FINAL) for task in await kit.claim(MAX_BATCH, queues=("others",))
            ]
            await kit.store.commit(changes)
        query = Query(dead_letters=True, queue="mine", newest_first=True, limit=10)
        page = await kit.store.find(query)  # one call, which looks at no more than the budget
        assert [task.id for task in page.tasks] == ["mine"]


async def commands_of(server: RedisServer, look: Callable[[str], Any], path: str) -> int:
    """Commands that a page has the server run, those within scripts too."""
    before = calls(server)
    await look(path)
    return calls(server) - before


def calls(server: RedisServer) -> int:
    """Commands run so far."""
    told = server.ask("INFO", "commandstats").decode()
    return sum(map(int, re.findall(r"calls=(\d+)", told)))
