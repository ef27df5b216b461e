"""Which driver: the hot statements of the PostgreSQL store through asyncpg and through psycopg.

    python benchmarks/postgres_drivers.py postgresql://user@host/database

Both run the same three calls with the same arguments in turns: create 200 tasks, claim 50, commit
those. Prints microseconds of wall time and of client CPU per task, and what an import costs.
"""

import asyncio
import itertools
import resource
import secrets
import subprocess
import sys
import time
from statistics import median

import asyncpg
import psycopg

from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Complete
from andon.model.task import Definition
from andon.stores.base import Change
from andon.stores.codec import task_of_row
from andon.stores.postgres import PostgresStore
from andon.stores.postgres.committing import Commit
from andon.stores.postgres.creating import Creation

ROUNDS = 15
COUNT = itertools.count()
TYPES = {
    "create": "bigint text boolean text[] bytea[] integer[] integer[] integer[] text[] bigint[] "
    "bigint[] bigint[] text[] text[] boolean[] bytea[] bytea[] integer[] integer[] bigint[] "
    "bigint[] bigint[] integer[] text[] bigint[] text[] bigint[]",
    "claim": "bigint text text text integer[] integer bigint integer[] integer[] integer",
    "commit": "bigint text integer[] integer[] text[] bigint[] text[] bigint[] bigint[] bigint[] "
    "text[] bigint[] bigint[] boolean[] boolean[] bytea[] text[] text[] text[] bytea[] bigint[] "
    "boolean[] bytea[] boolean[] bytea[] text[] text[] boolean[] integer[] integer[] bigint[] "
    "integer[] integer[] bigint[] integer[] bigint[] bigint[] integer[] text[] text[] bigint[] "
    "text[]",
}


def for_psycopg(store, name):
    sql = getattr(store._calls, name)
    for i, kind in reversed(list(enumerate(TYPES[name].split(), 1))):
        sql = sql.replace(f"${i}", f"%b::{kind}" if "bytea" in kind else f"%s::{kind}")
    return sql


class Asyncpg:
    name = "asyncpg"

    async def open(self, store, url):
        self.store, self.db = store, await asyncpg.connect(url, server_settings={"jit": "off"})

    async def run(self, name, arguments):
        return [
            tuple(row) for row in await self.db.fetch(getattr(self.store._calls, name), *arguments)
        ]


class Psycopg:
    name = "psycopg"

    async def open(self, store, url):
        self.db = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=1)
        await self.db.execute("SET jit = off")
        self.sql = {name: for_psycopg(store, name) for name in TYPES}

    async def run(self, name, arguments):
        cursor = self.db.cursor(binary=True)
        await cursor.execute(self.sql[name], arguments)
        return await cursor.fetchall()


def tasks(store, count):
    now = store.now()
    return [
        admit(
            Definition(
                id=f"t{next(COUNT)}-{secrets.token_hex(4)}", name="job", args=b'{"x":1}' * 8
            ),
            now,
            secrets.token_hex(8),
        )
        for _ in range(count)
    ]


class Meter:
    def __init__(self):
        self.wall, self.cpu = [], []

    async def measure(self, count, work):
        used, began = cpu(), time.perf_counter()
        done = await work
        self.wall.append((time.perf_counter() - began) / count * 1e6)
        self.cpu.append((cpu() - used) / count * 1e6)
        return done


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def main(url):
    store = PostgresStore(f"{url}?namespace=drivers")
    await store.open()
    drivers = [Asyncpg(), Psycopg()]
    meters = {(d.name, what): Meter() for d in drivers for what in TYPES}
    for driver in drivers:
        await driver.open(store, url)
    for _ in range(ROUNDS):
        for driver in drivers:
            creation = Creation(tasks(store, 200), store.partition_of)
            columns, _ = await creation.arguments(store._names)
            await meters[driver.name, "create"].measure(
                200, driver.run("create", [0, "me", False, *columns])
            )
            for _ in range(4):
                arguments = [
                    0,
                    "me",
                    "w",
                    secrets.token_hex(8),
                    [store._names.ids["default"]],
                    50,
                    30_000,
                    [],
                    [],
                    0,
                ]
                rows = await meters[driver.name, "claim"].measure(
                    50, driver.run("claim", arguments)
                )
                claimed = [task_of_row(row) for row in rows]
                changes = []
                for task in claimed:
                    moved = apply(
                        task,
                        Complete(result=b'{"ok":true}'),
                        now=store.now(),
                        random=lambda: 0.5,
                        write_id=secrets.token_hex(8),
                    )
                    changes.append(
                        Change(
                            before=task,
                            after=moved.status,
                            event=moved.event,
                            result=moved.result,
                            sets_result=True,
                        )
                    )
                columns, _ = await Commit(changes, store.partition_of).arguments(store._names)
                await meters[driver.name, "commit"].measure(
                    50, driver.run("commit", [0, "me", *columns])
                )
    for (name, what), meter in meters.items():
        wall, used = median(meter.wall), median(meter.cpu)
        print(f"{name:8} {what:7} wall {wall:6.1f} us  client CPU {used:6.1f} us")
    await store.close()


def print_memory():
    code = (
        "import {}, re; print(re.search(r'VmRSS:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    for module in ("asyncio", "asyncpg", "psycopg"):
        kilobytes = subprocess.check_output([sys.executable, "-c", code.format(module)])
        print(f"import {module:8} {int(kilobytes) / 1024:5.1f} MB")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
    print_memory()
