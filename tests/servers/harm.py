"""What is done to stored data behind a store's back, and seen of it there; each kind keeps it in
its own way."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit


async def damage(url: str, task_id: str) -> None:
    """Make the status of one record nonsense, as a bad disk would."""
    await _DAMAGE[urlsplit(url).scheme](url, task_id)


def can_damage(url: str) -> bool:
    """Whether records of the store can be made nonsense so."""
    return urlsplit(url).scheme in _DAMAGE


async def forget_deletions(url: str) -> None:
    """Make every deletion so long ago that repeats of its submit are no longer recognised."""
    await _FORGET[urlsplit(url).scheme](url)


async def reserved_keys(url: str) -> int:
    """How many unique keys are reserved, whether or not their holders are still there."""
    return await _RESERVED[urlsplit(url).scheme](url)


async def disconnect(url: str) -> int:
    """Have the server end every connection that others have to it; how many there were."""
    return await _DISCONNECT[urlsplit(url).scheme](url)


def can_disconnect(url: str) -> bool:
    """Whether the kind of server has a command for that."""
    return urlsplit(url).scheme in _DISCONNECT


async def _damage_sqlite(url: str, task_id: str) -> None:
    changed = _on_file(
        url,
        "UPDATE task SET body = CAST(x'c1c1' || substr(body, 3) AS BLOB) "
        "WHERE seq = (SELECT seq FROM definition WHERE id = ?)",
        task_id,
    )
    assert changed == 1


async def _forget_sqlite(url: str) -> None:
    _on_file(url, "DELETE FROM stub")


async def _reserved_sqlite(url: str) -> int:
    with contextlib.closing(sqlite3.connect(_file(url), timeout=10)) as db:
        return int(db.execute("SELECT count(*) FROM unique_key").fetchone()[0])


def _on_file(url: str, statement: str, *arguments: object) -> int:
    """Rows changed."""
    with contextlib.closing(sqlite3.connect(_file(url), timeout=10)) as db, db:
        return db.execute(statement, arguments).rowcount


def _file(url: str) -> str:
    return url.removeprefix("sqlite:///").partition("?")[0]


# --- Redis ---


async def _damage_redis(url: str, task_id: str) -> None:
    async with _on_redis(url) as ask:
        [key] = await ask("KEYS", f"{{{_namespace(url)}:*}}:task:{task_id}")
        body = await ask("HGET", key, "s")
        await ask("HSET", key, "s", b"\xc1\xc1" + body[2:])


async def _forget_redis(url: str) -> None:
    async with _on_redis(url) as ask:
        keys = await ask("KEYS", f"{{{_namespace(url)}:*}}:stub:*")
        assert await ask("DEL", *keys) == len(keys)


async def _reserved_redis(url: str) -> int:
    async with _on_redis(url) as ask:
        return len(await ask("KEYS", f"{{{_namespace(url)}:*}}:unique:*"))


async def _disconnect_redis(url: str) -> int:
    async with _on_redis(url) as ask:
        kinds = ("normal", "pubsub")
        return sum([await ask("CLIENT", "KILL", "TYPE", k, "SKIPME", "yes") for k in kinds])


@contextlib.asynccontextmanager
async def _on_redis(url: str) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """What sends a command and gives its reply."""
    import hiredis

    parts = urlsplit(url)
    stream, writer = await asyncio.open_connection(parts.hostname, parts.port)
    reader = hiredis.Reader()

    async def ask(*words: str | bytes) -> Any:
        writer.write(hiredis.pack_command(cast("Any", words)))
        while (reply := reader.gets()) is False:
            reader.feed(await stream.read(65_536))
        assert not isinstance(reply, hiredis.ReplyError), reply
        return reply

    try:
        yield ask
    finally:
        writer.close()


def _namespace(url: str) -> str:
    return parse_qs(urlsplit(url).query)["namespace"][0]


# --- PostgreSQL ---


async def _on_postgres(url: str, statement: str, *arguments: object) -> str:
    """What the server says was done; `{schema}` is the store's."""
    import asyncpg

    from andon.stores.postgres.location import parse

    location = parse(url)
    db = await asyncpg.connect(location.dsn)
    try:
        return await db.execute(statement.format(schema=location.namespace), *arguments)
    finally:
        await db.close()


async def _damage_postgres(url: str, task_id: str) -> None:
    done = await _on_postgres(
        url,
        "UPDATE {schema}.task SET body = '\\xc1c1' || substr(body, 3) "
        "WHERE seq = (SELECT seq FROM {schema}.definition WHERE id = $1)",
        task_id,
    )
    assert done == "UPDATE 1", done


async def _forget_postgres(url: str) -> None:
    await _on_postgres(url, "DELETE FROM {schema}.stub")


async def _reserved_postgres(url: str) -> int:
    done = await _on_postgres(url, "SELECT FROM {schema}.unique_key")
    return int(done.removeprefix("SELECT "))


async def _disconnect_postgres(url: str) -> int:
    done = await _on_postgres(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    )
    return int(done.removeprefix("SELECT "))


# --- NATS ---


async def _damage_nats(url: str, task_id: str) -> None:
    from msgspec import Raw
    from msgspec.structs import replace

    from andon.stores.kit.codec import encode
    from andon.stores.nats.record_codec import decode_record

    async with _on_nats(url) as (jetstream, stream, root):
        found = await jetstream.get_last_msg(stream, f"{root}t.*.{task_id}.>")
        kept = {k: v for k, v in (found.headers or {}).items() if k.startswith("Nats-Schedule")}
        body = replace(decode_record(found.data), status=Raw(encode("nonsense")))
        await jetstream.publish(found.subject, encode(body), headers=kept or None)


async def _forget_nats(url: str) -> None:
    from andon.stores.nats.record_codec import decode_record

    async with _on_nats(url) as (jetstream, stream, root):
        info = await jetstream.stream_info(stream, subjects_filter=f"{root}t.>")
        for subject in info.state.subjects or {}:
            found = await jetstream.get_last_msg(stream, subject)
            if decode_record(found.data).deleted:
                await jetstream.purge_stream(stream, subject=subject)


async def _reserved_nats(url: str) -> int:
    found = 0
    async with _on_nats(url) as (jetstream, first, root):
        for p in range(int(parse_qs(urlsplit(url).query).get("partitions", ["1"])[0])):
            stream, keys = first.removesuffix("0") + str(p), f"{root.removesuffix('0.')}{p}.u.>"
            info = await jetstream.stream_info(stream, subjects_filter=keys)
            for subject in info.state.subjects or {}:
                found += bool((await jetstream.get_last_msg(stream, subject)).data)
    return found


@contextlib.asynccontextmanager
async def _on_nats(url: str) -> AsyncIterator[tuple[Any, str, str]]:
    """JetStream, the name of the stream of the first partition, and what its subjects begin
    with."""
    import nats

    client = await nats.connect(f"nats://{urlsplit(url).netloc}")
    try:
        namespace = _namespace(url)
        yield client.jetstream(), f"ANDON_{namespace}_0", f"andon.{namespace}.0."
    finally:
        await client.close()


_DAMAGE: dict[str, Callable[[str, str], Awaitable[None]]] = {
    "sqlite": _damage_sqlite,
    "redis": _damage_redis,
    "postgresql": _damage_postgres,
    "nats": _damage_nats,
}
_FORGET: dict[str, Callable[[str], Awaitable[None]]] = {
    "sqlite": _forget_sqlite,
    "redis": _forget_redis,
    "postgresql": _forget_postgres,
    "nats": _forget_nats,
}
_RESERVED: dict[str, Callable[[str], Awaitable[int]]] = {
    "sqlite": _reserved_sqlite,
    "redis": _reserved_redis,
    "postgresql": _reserved_postgres,
    "nats": _reserved_nats,
}
_DISCONNECT: dict[str, Callable[[str], Awaitable[int]]] = {
    "redis": _disconnect_redis,
    "postgresql": _disconnect_postgres,
}
