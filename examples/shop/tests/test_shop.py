"""The shop's tasks in virtual time: three days pass at once, and nothing sleeps."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from andon import State
from andon.testing import running, virtual_time
from shop import database
from shop.database import Mail, Order, Product, session
from shop.tasks import app, charge, import_products, remind, ship

PRICES = "sku,name,cents\npen,Pen,120\ncup,Cup,800\n"


@pytest.fixture(autouse=True)
def products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite:///{tmp_path}/shop.db")
    database.engine.cache_clear()
    with session() as opened:
        opened.add(Product(sku="pen", name="Pen", cents=120, stock=1))
    yield
    database.engine().dispose()
    database.engine.cache_clear()


def order(email: str, cents: int = 120) -> int:
    with session() as opened:
        made = Order(sku="pen", email=email, cents=cents)
        opened.add(made)
        opened.flush()
        return made.id


def state_of(order_id: int) -> str:
    with session() as opened:
        return opened.get_one(Order, order_id).state


@virtual_time
async def test_an_order_is_charged_once_though_the_bank_was_away() -> None:
    number = order("slow@example.org")
    async with running(app) as t:
        task = await t.run_until(await charge.submit(order=number))
        again = await t.run_until(await charge.submit(order=number))
    assert (task.state, task.tries, state_of(number)) == (State.COMPLETED, 2, "paid")
    assert again.result == "paid"


@virtual_time
async def test_a_declined_card_is_not_tried_again() -> None:
    async with running(app) as t:
        task = await t.run_until(await charge.submit(order=order("broke@example.org")))
    assert (task.state, len(task.runs)) == (State.FAILED, 1)


@virtual_time
async def test_what_is_not_paid_is_not_shipped() -> None:
    number = order("broke@example.org")
    async with running(app) as t:
        paid = charge.draft(order=number)
        sent = ship.options(depends_on=paid).draft(number)
        await app.submit_many([paid, sent])
        task = await t.run_until(app.handle(sent.id))
    assert task.state is State.UNREACHABLE


@virtual_time
async def test_a_shipped_order_sends_one_mail() -> None:
    number = order("ann@example.org")
    async with running(app) as t:
        paid = charge.draft(order=number)
        sent = ship.options(depends_on=paid).draft(number)
        await app.submit_many([paid, sent])
        await t.run_until(app.handle(sent.id))
        await t.run_until_idle()
    with session() as opened:
        mails = opened.scalars(select(Mail)).all()
        assert [(mail.to, mail.subject) for mail in mails] == [
            ("ann@example.org", f"Order {number} is on its way")
        ]


@virtual_time
async def test_an_unpaid_order_is_forgotten_after_three_days() -> None:
    number = order("ann@example.org")
    async with running(app) as t:
        await remind.submit_in(3 * 86_400, number)
        await t.advance(days=2, hours=23)
        assert state_of(number) == "new"
        await t.advance(hours=1)
    assert state_of(number) == "forgotten"


@virtual_time
async def test_an_import_posted_twice_is_one_import() -> None:
    async with running(app) as t:
        first = await import_products.submit(PRICES)
        second = await import_products.submit(PRICES)
        task = await t.run_until(first)
    assert first.id == second.id
    assert (task.result, task.progress) == ({"taken": 2}, 100)
