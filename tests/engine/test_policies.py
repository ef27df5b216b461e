"""Named retry policies, and a configuration of which a part cannot be used."""

import logging
from collections import Counter
from typing import Any

import pytest

from andon.engine.local import LocalEngine
from andon.engine.policy_resolver import PolicyResolver
from andon.lifecycle.commands import Complete
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.fleet import TypeInfo
from andon.model.policy import Backoff, Policy
from andon.model.settings import POLICIES_SETTING, RETENTION_SETTING
from andon.model.words import State

from .conftest import Shop

GENTLE = {"max_retries": 9, "retry_delay": 60, "backoff": "linear"}


async def policy_of(shop: Shop, task_id: str) -> Policy:
    return (await shop.task(task_id)).policy


async def test_a_name_stands_for_its_options_and_what_stands_beside_it_wins(shop: Shop) -> None:
    assert await shop.engine.put_policy("gentle", GENTLE) == GENTLE
    await shop.submit("a", options={"retry": "gentle"})
    await shop.submit("b", options={"max_retries": 1, "retry": "gentle"})
    a, b = await policy_of(shop, "a"), await policy_of(shop, "b")
    assert (a.max_retries, a.retry_delay, a.backoff) == (9, 60, Backoff.LINEAR)
    assert (b.max_retries, b.retry_delay) == (1, 60)


async def test_a_queue_and_a_type_may_name_one(shop: Shop) -> None:
    await shop.engine.put_policy("gentle", GENTLE)
    await shop.engine.put_policy("never", {"max_retries": 0})
    await shop.engine.configure_queue("mail", {"policy": {"retry": "gentle"}})
    await shop.submit("a", queue="mail")
    shop.engine.know_types([TypeInfo(name="sure", policy={"retry": "never"})])
    await shop.submit("b", "sure", queue="mail")
    assert (await policy_of(shop, "a")).max_retries == 9
    b = await policy_of(shop, "b")
    assert (b.max_retries, b.retry_delay) == (0, 60)


async def test_a_task_keeps_what_it_was_promised(shop: Shop) -> None:
    await shop.engine.put_policy("gentle", GENTLE)
    await shop.submit("a", options={"retry": "gentle"})
    await shop.engine.put_policy("gentle", {"max_retries": 2})
    await shop.submit("b", options={"retry": "gentle"})
    assert await shop.engine.delete_policy("gentle")
    assert (await policy_of(shop, "a")).max_retries == 9
    b = await policy_of(shop, "b")
    assert (b.max_retries, b.retry_delay) == (2, Policy().retry_delay)
    assert not await shop.engine.delete_policy("gentle")


async def test_a_name_that_is_none_is_refused_with_the_nearest_and_alone(shop: Shop) -> None:
    await shop.engine.put_policy("gentle", GENTLE)
    outcomes = await shop.engine.submit(
        [
            shop.submission("a", options={"retry": "gentle"}),
            shop.submission("b", options={"retry": "gentel"}),
            shop.submission("c", options={"retry": 5}),
            shop.submission("d"),
        ]
    )
    errors = [one.error for one in outcomes]
    assert (errors[0], errors[3]) == (None, None)
    assert "Did you mean 'gentle'?" in str(errors[1])
    for error in errors[1:3]:
        assert isinstance(error, InvalidSubmission)
        assert error.field == "retry"
    with pytest.raises(InvalidSubmission, match="gentle"):
        await shop.engine.configure_queue("mail", {"policy": {"retry": "gentel"}})


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("task", {"name": "bad name"}),
        ("queue", {"queue": "bad queue"}),
        ("version", {"version": -1}),
    ],
)
async def test_a_type_or_queue_that_no_task_can_have_is_refused_alone_and_each_time(
    shop: Shop, field: str, given: dict[str, Any]
) -> None:
    """It is looked at when the policy of its tasks is resolved, which is done once."""
    for first, bad, last in ("abc", "def"):
        outcomes = await shop.engine.submit(
            [shop.submission(first), shop.submission(bad, **given), shop.submission(last)]
        )
        assert [one.error is None for one in outcomes] == [True, False, True]
        error = outcomes[1].error
        assert isinstance(error, InvalidSubmission)
        assert error.field == field


async def test_a_name_that_was_set_elsewhere_a_moment_ago_is_known(shop: Shop) -> None:
    other = LocalEngine(shop.engine.store)
    await other.put_policy("fresh", {"max_retries": 7})
    await shop.submit("a", options={"retry": "fresh"})
    await other.put_policy("fresher", {"max_retries": 8})
    many = [shop.submission(f"m{i}", options={"retry": "fresher"}) for i in range(3)]
    assert [one.error for one in await shop.engine.submit(many)] == [None] * 3
    assert (await policy_of(shop, "a")).max_retries == 7


async def test_sets_from_two_sides_do_not_undo_each_other(shop: Shop) -> None:
    other = LocalEngine(shop.engine.store)
    for i in range(5):
        await shop.engine.put_policy(f"a{i}", {"max_retries": i})
        await other.put_policy(f"b{i}", {"max_retries": i})
    assert len(await shop.engine.policies()) == 10


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("", {}, "name"),
        ("no name", {}, "name"),
        ("x", {"max_retrys": 1}, "max_retrys"),
        ("x", {"timeout": 1.0}, "timeout"),
        ("x", {"retry": "gentle"}, "retry"),
        ("x", {"max_retries": -1}, "max_retries"),
        ("x", {"backoff": "sometimes"}, "backoff"),
    ],
)
async def test_what_is_no_retry_policy_is_refused(
    shop: Shop, name: str, options: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidSubmission) as refusal:
        await shop.engine.put_policy(name, options)
    assert refusal.value.field == field
    assert await shop.engine.policies() == {}


async def test_one_that_a_queue_uses_is_not_deleted(shop: Shop) -> None:
    await shop.engine.put_policy("gentle", GENTLE)
    await shop.engine.configure_queue("mail", {"policy": {"retry": "gentle"}})
    with pytest.raises(ConfigurationError, match="'mail'"):
        await shop.engine.delete_policy("gentle")
    await shop.engine.configure_queue("mail", {"policy": {}})
    assert await shop.engine.delete_policy("gentle")


@pytest.mark.parametrize("retention", [b"a week", b"nan", b"-3"])
async def test_a_retention_that_is_none_is_named_and_the_rest_goes_on(
    shop: Shop, retention: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = shop.engine.store
    await shop.engine.configure_queue("mail", {"policy": {"max_retries": 8}})
    await shop.engine.put_policy("gentle", GENTLE)
    stored = await store.setting(POLICIES_SETTING)
    assert stored is not None
    spoilt = stored.replace(b"{", b'{"bad":{"timeout":1},', 1)
    assert await store.put_setting(POLICIES_SETTING, spoilt, expect=stored)
    assert await store.put_setting(RETENTION_SETTING, retention, expect=None)
    resolver = PolicyResolver(store, "native")
    with caplog.at_level(logging.ERROR):
        for _ in range(4):
            await resolver.refresh()
    policy = resolver.policy("mail", "job", 0, {"retry": "gentle"}).policy
    assert (policy.max_retries, policy.retention) == (9, Policy().retention)
    assert resolver.policy("mail", "job", 0, {}).policy.max_retries == 8
    said = Counter(record.getMessage() for record in caplog.records)
    assert max(said.values()) <= 2, "once by this resolver, and once by the engine's own"
    policies, of_retention = sorted(said, key=lambda text: "setting retention " in text)
    assert "retry-policies: bad" in policies
    assert "setting retention " in of_retention


async def test_a_claim_in_which_one_policy_cannot_be_filled_in_gives_the_others_theirs(
    shop: Shop,
) -> None:
    """It gives that one, too: it runs by what was resolved at its submit."""
    await shop.submit("bad", "bad")
    await shop.submit("good", "good")
    shop.engine.know_types(
        [
            TypeInfo(name="bad", policy={"retry": "nowhere"}),
            TypeInfo(name="good", policy={"max_retries": 1}),
        ]
    )
    claimed = {task.id: task for task in await shop.claim(limit=5)}
    assert claimed["good"].policy.max_retries == 1
    assert claimed["bad"].policy.max_retries == Policy().max_retries
    assert await shop.engine.report(claimed["bad"], Complete()) is State.COMPLETED
