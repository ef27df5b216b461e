"""What may happen to a server, and what the store makes of it."""

import asyncio

import pytest
from conformance.kit import ids
from servers.redis import RedisServer, until

from andon.contract.outcomes import ChangeKind, CreateKind, Verdict
from andon.contract.requests import Renewal
from andon.contract.topics import ready_topic
from andon.lifecycle.commands import Complete
from andon.model.errors import ConfigurationError, StoreIncompatible, StoreUnavailable
from andon.stores.redis import network

from .conftest import OpenKit, Start


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again ends soon, where it is to end in an error."""
    monkeypatch.setattr(network, "PATIENCE_S", 0.5)


# --- it goes away and comes back ---


async def test_a_restarted_server_is_used_on_as_if_nothing_had_been(
    start: Start, open_kit: OpenKit
) -> None:
    server = start(appendfsync="always")
    kit = await open_kit(server.url("t"))
    tasks = await kit.submit_many(20)
    (first,) = await kit.claim()
    server.stop()
    waiting = asyncio.ensure_future(kit.move(first, Complete()))
    await asyncio.to_thread(server.start)
    assert await waiting is not None
    assert len(await kit.claim(limit=50)) == len(tasks) - 1


async def test_a_server_that_was_killed_has_what_it_acknowledged(
    start: Start, open_kit: OpenKit
) -> None:
    server = start(appendfsync="always")
    kit = await open_kit(server.url("t"))
    tasks = await kit.submit_many(50)
    server.kill()
    await asyncio.to_thread(server.start)
    assert sorted(ids(await kit.claim(limit=100))) == sorted(ids(tasks))


async def test_connections_that_are_cut_all_the_time_lose_and_double_nothing(
    start: Start, open_kit: OpenKit
) -> None:
    server = start()
    kit = await open_kit(server.url("t"))
    ended: list[str] = []
    answered = asyncio.Event()

    async def live(number: int) -> None:
        (created,) = await kit.create(kit.record(f"cut{number}"))
        answered.set()
        assert created.kind in (CreateKind.CREATED, CreateKind.EXISTS)
        for task in await kit.claim(limit=5):
            changed = await kit.try_move(task, Complete())
            assert changed.kind is ChangeKind.APPLIED
            ended.append(task.id)
            answered.set()

    working = asyncio.gather(*(live(i) for i in range(200)))
    working.add_done_callback(lambda _: answered.set())
    while not working.done():
        answered.clear()
        await asyncio.to_thread(server.ask, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await answered.wait()  # cuts that let nothing through are an outage
    await working
    while tasks := await kit.claim(limit=50):
        for task in tasks:
            await kit.move(task, Complete())
            ended.append(task.id)
    assert sorted(ended) == sorted(f"cut{i}" for i in range(200))


async def test_hints_come_again_after_the_connection_for_them_was_cut(
    start: Start, open_kit: OpenKit
) -> None:
    server = start()
    kit = await open_kit(server.url("t"))
    with kit.store.listen([ready_topic("default")]) as listener:
        server.ask("CLIENT", "KILL", "TYPE", "pubsub")
        assert await listener.wait(10), "everybody looks once when hints may have been missed"
        await kit.submit()
        assert await listener.wait(10)


async def test_a_renewal_from_a_thread_survives_a_cut_connection(
    start: Start, open_kit: OpenKit
) -> None:
    server = start()
    kit = await open_kit(server.url("t"))
    task = await kit.active()
    renewal = Renewal(task=task.id, run=task.status.run, lease_ms=30_000)
    for _ in range(3):
        assert await asyncio.to_thread(kit.store.renew_blocking, [renewal]) == [Verdict.OK]
        server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


async def test_a_server_that_falls_silent_is_given_up_after_a_while(
    start: Start, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    kit = await open_kit(server.url("t"))
    server.pause()
    monkeypatch.setattr("andon.stores.redis.connection.REPLY_WITHIN_S", 0.3)
    monkeypatch.setattr("andon.stores.redis.network.CONNECT_WITHIN_S", 0.3)
    monkeypatch.setattr(network, "PATIENCE_S", 0.5)
    with pytest.raises(StoreUnavailable, match="cannot be used now"):
        await kit.submit()
    monkeypatch.undo()
    server.resume()
    await kit.submit()


async def test_scripts_that_the_server_forgot_are_loaded_again(
    start: Start, open_kit: OpenKit
) -> None:
    server = start()
    kit = await open_kit(server.url("t"))
    task = await kit.active()
    server.ask("SCRIPT", "FLUSH")
    renewal = Renewal(task=task.id, run=task.status.run, lease_ms=30_000)
    assert await asyncio.to_thread(kit.store.renew_blocking, [renewal]) == [Verdict.OK]
    await kit.move(task, Complete())


# --- it cannot be used ---


async def test_nobody_there_is_unavailable(
    start: Start, open_kit: OpenKit, impatient: None
) -> None:
    server = start()
    server.stop()
    with pytest.raises(StoreUnavailable, match="cannot be used now"):
        await open_kit(server.url("t"))


async def test_a_full_server_refuses_in_words_and_takes_writes_again_when_it_has_room(
    start: Start, open_kit: OpenKit, impatient: None
) -> None:
    server = start(settings=["maxmemory 100mb", "maxmemory-policy noeviction"])
    kit = await open_kit(server.url("t"))
    task = await kit.active()
    server.ask("CONFIG", "SET", "maxmemory", "100kb")
    with pytest.raises(StoreUnavailable, match="raise it, or delete what is not needed"):
        await kit.submit("refused")
    server.ask("CONFIG", "SET", "maxmemory", "100mb")
    assert await kit.get("refused") is None, "nothing was half written"
    await kit.submit("accepted")
    await kit.move(task, Complete())


async def test_a_replica_is_refused_in_words(
    start: Start, open_kit: OpenKit, impatient: None
) -> None:
    primary = start("primary")
    replica = start("replica", settings=[f"replicaof 127.0.0.1 {primary.port}"])
    until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"), "no link")
    with pytest.raises(StoreUnavailable, match="it is a replica; name the primary"):
        await open_kit(replica.url("t"))


async def test_a_primary_that_was_a_replica_for_a_while_takes_what_came_meanwhile(
    start: Start, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "PATIENCE_S", 30.0)
    server = start()
    kit = await open_kit(server.url("t"))
    await kit.submit("before")
    server.ask("CONFIG", "RESETSTAT")
    server.ask("REPLICAOF", "127.0.0.1", 1)
    waiting = asyncio.ensure_future(kit.create(kit.record("meanwhile")))

    def is_refused() -> bool:
        return b"total_error_replies:0" not in server.ask("INFO", "stats")

    await asyncio.to_thread(until, is_refused, "nothing was refused")
    server.ask("REPLICAOF", "NO", "ONE")
    (created,) = await waiting
    assert created.kind is CreateKind.CREATED
    assert sorted(ids(await kit.claim(limit=10))) == ["before", "meanwhile"]


@pytest.mark.parametrize(
    ("credentials", "said"),
    [
        ("", "it asks for a password"),
        (":wrong@", "refuses the user name or password|does not accept the password"),
        ("nobody:secret@", "refuses the user name or password"),
    ],
)
async def test_a_wrong_password_is_told_at_once(
    *,
    start: Start,
    open_kit: OpenKit,
    monkeypatch: pytest.MonkeyPatch,
    credentials: str,
    said: str,
) -> None:
    server = start(password="secret")
    url = server.url("t").replace(":secret@", credentials)
    monkeypatch.setattr(network, "PATIENCE_S", 3_600.0)  # were it tried again, it would be for ever
    with pytest.raises(ConfigurationError, match=said):
        await open_kit(url)
    kit = await open_kit(server.url("t"))
    await kit.submit()


async def test_a_password_where_none_is_set_is_told(shared: RedisServer, open_kit: OpenKit) -> None:
    url = shared.url("t").replace("redis://", "redis://:secret@")
    with pytest.raises(ConfigurationError, match="does not accept the password"):
        await open_kit(url)


async def test_a_database_that_is_not_there_is_told(shared: RedisServer, open_kit: OpenKit) -> None:
    with pytest.raises(ConfigurationError, match="has no such database"):
        await open_kit(shared.url("t").replace("/0?", "/99?"))


async def test_a_cluster_url_for_a_server_alone_is_told(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    url = shared.url("t").replace("redis://", "redis+cluster://").replace("/0?", "?")
    with pytest.raises(ConfigurationError, match="is no cluster; use redis://"):
        await open_kit(url)


async def test_keys_of_another_application_are_left_alone(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    shared.ask("SET", "{strange:0}:meta", "mine")
    shared.ask("HSET", "{stranger:0}:meta", "mine", "1")
    for namespace in ("strange", "stranger"):
        with pytest.raises(StoreIncompatible, match="another application uses keys"):
            await open_kit(shared.url(namespace))
    assert shared.ask("GET", "{strange:0}:meta") == b"mine"


async def test_a_key_of_another_application_met_later_is_told(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("met-later"))
    shared.ask("SET", "{met-later:0}:queues", "x")
    with pytest.raises(StoreIncompatible, match="another application uses keys"):
        await kit.create(kit.record("ours", key="k"))


@pytest.mark.parametrize("field", ["schema", "min_writer"])
async def test_what_a_newer_release_wrote_is_not_touched(
    shared: RedisServer, open_kit: OpenKit, field: str
) -> None:
    namespace = f"newer-{field.replace('_', '-')}"
    await open_kit(shared.url(namespace))
    shared.ask("HSET", f"{{{namespace}:0}}:meta", field, "99")
    with pytest.raises(StoreIncompatible, match="newer release"):
        await open_kit(shared.url(namespace))


async def test_an_old_process_stops_writing_when_newer_records_come(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("outlived"))
    shared.ask("HSET", "{outlived:0}:meta", "min_writer", "9")
    with pytest.raises(StoreIncompatible, match="Upgrade Andon here"):
        await kit.submit()


async def test_the_number_of_partitions_stays_as_it_was_made(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    url = shared.url("parts")
    await open_kit(f"{url}&partitions=4")
    with pytest.raises(ConfigurationError, match="was made with partitions=4"):
        await open_kit(f"{url}&partitions=2")
    silent = await open_kit(url)
    assert silent.store.partitions == 4


async def test_a_server_that_was_emptied_is_set_up_again(start: Start, open_kit: OpenKit) -> None:
    server = start()
    kit = await open_kit(server.url("t"))
    await kit.submit()
    server.ask("FLUSHALL")
    await kit.submit("after")
    assert ids(await kit.claim(limit=5)) == ["after"]
