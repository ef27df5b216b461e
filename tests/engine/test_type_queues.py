"""Where a task goes that names no queue: to that of its type (docs/rulings.md, R5)."""

from andon.engine.base import Submission
from andon.engine.type_queues import with_queues
from andon.model.fleet import TypeInfo
from andon.model.headers import SIGNATURE_HEADER

from .conftest import Shop


async def queue_of(shop: Shop, task_id: str) -> str:
    return (await shop.task(task_id)).definition.queue


async def published(shop: Shop, *types: TypeInfo) -> None:
    """Workers elsewhere have published these, and this process has heard of it."""
    await shop.engine.store.put_types(types)
    await shop.engine.resolver.refresh()


async def test_the_queue_is_that_which_workers_have_published_of_the_type(shop: Shop) -> None:
    await published(
        shop,
        TypeInfo(name="send", queue="mail"),
        TypeInfo(name="send", version=2, queue="post"),
        TypeInfo(name="old.*", queue="attic"),
        TypeInfo(name="told-by-an-older-release"),
    )
    wanted = {("send", 0): "mail", ("send", 2): "post", ("old.thing", 3): "attic"}
    wanted |= {("told-by-an-older-release", 0): "default", ("unknown", 0): "default"}
    for (name, version), queue in wanted.items():
        task_id = await shop.submit("", name, version=version)
        assert await queue_of(shop, task_id) == queue, name
    assert await queue_of(shop, await shop.submit("", "send", queue="urgent")) == "urgent"


async def test_a_queue_published_anew_holds_for_what_is_submitted_then(shop: Shop) -> None:
    await published(shop, TypeInfo(name="send", queue="mail"))
    await shop.submit("before", "send")
    await published(shop, TypeInfo(name="send", queue="post"))
    await shop.submit("after", "send")
    assert await queue_of(shop, "before") == "mail"
    assert await queue_of(shop, "after") == "post"


async def test_what_this_process_declares_wins_over_what_others_have_published(shop: Shop) -> None:
    await published(shop, TypeInfo(name="send", queue="mail"))
    await shop.submit("before", "send")
    shop.engine.know_types([TypeInfo(name="send", queue="ours")])
    await shop.submit("after", "send")
    assert await queue_of(shop, "before") == "mail"
    assert await queue_of(shop, "after") == "ours"


async def test_the_queue_counts_for_its_policy_and_its_size(shop: Shop) -> None:
    await published(shop, TypeInfo(name="send", queue="mail"))
    await shop.engine.configure_queue("mail", {"max_size": 1, "policy": {"max_retries": 9}})
    await shop.submit("a", "send")
    assert (await shop.task("a")).policy.max_retries == 9
    refused = await shop.try_submit("b", "send")
    assert "'mail'" in str(refused.error)


async def test_one_that_was_signed_without_a_queue_stays_where_it_was_signed_for(
    shop: Shop,
) -> None:
    await published(shop, TypeInfo(name="send", queue="mail"))
    await shop.submit("a", "send", headers={SIGNATURE_HEADER: "v1"})
    assert await queue_of(shop, "a") == "default"


async def test_a_repeat_is_one_though_the_type_was_published_in_between(shop: Shop) -> None:
    await shop.submit("a", "send")
    await published(shop, TypeInfo(name="send", queue="mail"))
    again = await shop.try_submit("a", "send")
    assert again.error is None
    assert not again.created
    assert await queue_of(shop, "a") == "default"


async def test_whoever_asks_beforehand_is_told_the_same(shop: Shop) -> None:
    await published(shop, TypeInfo(name="send", queue="mail"))
    some = [
        Submission(id="a", name="send"),
        Submission(id="b", name="send", queue="urgent"),
        Submission(id="c", name="send", headers={SIGNATURE_HEADER: "v1"}),
        Submission(id="d", name="unknown"),
    ]
    settled = await with_queues(shop.engine, some)
    assert [one.queue for one in settled] == ["mail", "urgent", None, "default"]
    for one in some:
        await shop.engine.submit([one])
        told = next(s for s in settled if s.id == one.id).queue or "default"
        assert await queue_of(shop, one.id) == told
