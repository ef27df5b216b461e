"""Scopes, API tokens and run tokens, and where they are kept."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from andon.model.errors import AuthenticationFailed, ConfigurationError, PermissionRefused
from andon.model.scopes import holds_some, require, satisfies
from andon.model.settings import KEYS_SETTING, TOKENS_SETTING
from andon.service.trust import apitokens, runtokens
from andon.service.trust.access import Access, is_loopback
from andon.service.trust.registry import Registry
from andon.service.trust.scopes import check
from andon.stores.memory import MemoryStore


def on(act: Callable[[MemoryStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryStore("memory://")
        await store.open()
        await act(store)
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("held", "wanted", "enough"),
    [
        ("tasks:create:mail", "tasks:create:mail", True),
        ("tasks:create:mail", "tasks:create:mail2", False),
        ("tasks:create:mail*", "tasks:create:mail2", True),
        ("tasks:*", "tasks:read:x", True),
        ("tasks:*", "queues:read:x", False),
        ("*", "anything", True),
        ("tasks:read:*", "tasks:read:*", True),
        ("tasks:read:a", "tasks:read:*", False),
        ("tasks:read:a*", "tasks:read:*", False),
        ("tasks:read:**", "tasks:read:*", True),
        ("ta*ks:read", "tasks:read", False),
        ("", "", True),
        ("", "tasks:read:a", False),
    ],
)
def test_a_scope_is_satisfied_by_itself_or_a_pattern_with_a_star_at_its_end(
    held: str, wanted: str, enough: bool
):
    assert satisfies([held], wanted) is enough


def test_what_is_missing_is_named():
    with pytest.raises(PermissionRefused, match="tasks:read:b") as refused:
        require(["tasks:read:a"], "tasks:read:b")
    assert refused.value.scope == "tasks:read:b"


@pytest.mark.parametrize(
    ("held", "some"),
    [("queues:claim:a", True), ("queues:*", True), ("queues:read:a", False), ("que*", True)],
)
def test_something_of_a_kind_is_enough_where_any_will_do(held: str, some: bool):
    assert holds_some([held], "queues:claim:") is some


@pytest.mark.parametrize("bad", ["", "caf\u00e9", "a**", "a\n", "a\tb", "x" * 4097])
def test_what_cannot_be_a_scope_is_refused(bad: str):
    with pytest.raises(ConfigurationError):
        check(bad)


@pytest.mark.parametrize("good", ["two words", " ", "secrets:get:a b", "x" * 4096])
def test_a_token_may_hold_whatever_scope_a_task_may_carry(good: str):
    assert check(good) == good


@pytest.mark.parametrize(
    ("host", "only_here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, only_here: bool):
    assert is_loopback(host) is only_here


def test_an_api_token_is_known_by_its_hash_alone():
    text, record = apitokens.make("n", ["*"], now=0)
    assert apitokens.matches(record, text)
    assert not apitokens.matches(record, text[:-1] + ("A" if text[-1] != "A" else "B"))
    assert not apitokens.matches(None, text)
    assert not apitokens.matches(record, "andon_x")
    secret = text.rpartition("_")[2] if text.count("_") == 2 else text[15:]
    assert secret not in repr(record)


def test_a_run_token_says_what_was_signed():
    keys = runtokens.new_keys(0)
    token = runtokens.sign(keys, "task", "run", 3, ["a:b", "c:*"])
    claims = runtokens.verify(keys, token)
    assert (claims.task, claims.run, claims.number) == ("task", "run", 3)
    assert claims.scopes == ("a:b", "c:*")


def test_no_letter_of_a_run_token_can_be_changed():
    keys = runtokens.new_keys(0)
    token = runtokens.sign(keys, "task", "run", 0)
    for place, letter in enumerate(token):
        other = "A" if letter != "A" else "B"
        with pytest.raises(AuthenticationFailed):
            runtokens.verify(keys, token[:place] + other + token[place + 1 :])
    for bad in ("", "run_", "run_a.b", "run_a.b.c", f"{token}=", "run_ä.b.c", token[:-5]):
        with pytest.raises(AuthenticationFailed):
            runtokens.verify(keys, bad)


def test_two_keys_are_accepted_while_one_replaces_the_other():
    first = runtokens.new_keys(0)
    second = runtokens.new_keys(1, first)
    third = runtokens.new_keys(2, second)
    token = runtokens.sign(first, "task", "run", 0)
    assert runtokens.verify(second, token).task == "task"
    assert runtokens.sign(second, "task", "run", 0) != token
    with pytest.raises(AuthenticationFailed):
        runtokens.verify(third, token)


def test_keys_do_not_show_their_secrets():
    keys = runtokens.new_keys(0)
    assert repr(keys.keys[0].secret) not in repr(keys)


def test_a_new_token_works_at_once_and_a_revoked_one_no_longer_when_it_is_read_anew():
    async def act(store: MemoryStore) -> None:
        time = [0.0]
        service, command = Registry(store, clock=lambda: time[0]), Registry(store)
        assert await service.find("andon_nonsense") is None
        time[0] += 0.01
        text, record = await command.create("ci", ["tasks:*"])
        found = await service.find(text)
        assert found is not None
        assert found.scopes == ("tasks:*",)
        await command.revoke("ci")
        time[0] += 1.0
        found = await service.find(text)
        assert found is not None
        assert found.state(store.now()) == "revoked"
        assert [one.state(store.now()) for one in await command.tokens()] == ["revoked"]
        stored = await store.setting(TOKENS_SETTING)
        assert stored is not None
        assert text[-20:].encode() not in stored
        assert (await command.revoke(record.id)).revoked_at is not None

    on(act)


def test_tokens_made_at_the_same_time_all_count():
    async def act(store: MemoryStore) -> None:
        registries = [Registry(store) for _ in range(5)]
        await asyncio.gather(*(r.create(f"n{i}", ["*"]) for i, r in enumerate(registries)))
        assert len(await registries[0].tokens()) == 5

    on(act)


def test_what_is_not_there_cannot_be_revoked():
    async def act(store: MemoryStore) -> None:
        with pytest.raises(ConfigurationError, match="andon token list"):
            await Registry(store).revoke("nobody")

    on(act)


def test_a_token_of_the_past_or_without_scopes_is_not_made():
    async def act(store: MemoryStore) -> None:
        with pytest.raises(ConfigurationError, match="scope"):
            await Registry(store).create("n", [])
        with pytest.raises(ConfigurationError, match="later"):
            await Registry(store).create("n", ["*"], expires_at=store.now())
        with pytest.raises(ConfigurationError, match="9999"):
            await Registry(store).create("n", ["*"], expires_at=10**18)

    on(act)


def test_a_rotated_key_is_taken_up_by_a_service_that_runs():
    async def act(store: MemoryStore) -> None:
        service, command = Access(store, is_open=True), Registry(store)
        before = await service.registry.keys()
        assert await store.setting(KEYS_SETTING) is not None
        after = await command.rotate()
        token = runtokens.sign(after, "t", "r", 0)
        assert (await service.claims(token)).task == "t"
        old = runtokens.sign(before, "t", "r", 0)
        assert (await service.claims(old)).task == "t"

    on(act)
