"""The shop over HTTP. What a request writes and the tasks that follow are one transaction."""

from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.orm import Session

from andon import State, TaskView
from andon.errors import TaskNotFound
from shop.database import Order, Product, session
from shop.tasks import app, charge, import_products, invoice, remind, ship

web = FastAPI(title="Shop")

THREE_DAYS = 3 * 86_400


class Basket(BaseModel):
    sku: str
    email: str


class PriceList(BaseModel):
    rows: str


@web.post("/orders", status_code=201)
def place_order(basket: Basket) -> dict[str, Any]:
    """Take an order. The tasks are there if and when the order is."""
    with session() as opened:
        product = opened.get(Product, basket.sku)
        if product is None:
            raise HTTPException(404, f"There is no product {basket.sku!r}.")
        order = Order(sku=product.sku, email=basket.email, cents=product.cents)
        opened.add(order)
        opened.flush()
        submit_tasks(opened, order)
        return {"order": order.id}


def submit_tasks(opened: Session, order: Order) -> None:
    """Charge and draw, then ship; remind in three days."""
    # The sessions of tests are of another database than the tasks: no transaction holds both.
    connection = opened if opened.get_bind().dialect.name == "postgresql" else None
    name = f"order-{order.id}"
    paid = charge.options(id=f"{name}-charge", key=order.email, connection=connection).draft(
        order=order.id
    )
    drawn = invoice.options(id=f"{name}-invoice", connection=connection).draft(
        order.id, order.cents
    )
    sent = ship.options(id=f"{name}-ship", depends_on=[paid, drawn], connection=connection).draft(
        order.id
    )
    late = remind.options(id=f"{name}-remind", delay=THREE_DAYS, connection=connection).draft(
        order.id
    )
    app.sync.submit_many([paid, drawn, sent, late])


@web.get("/orders/{order_id}")
def show_order(order_id: int) -> dict[str, Any]:
    with session() as opened:
        order = opened.get(Order, order_id)
        if order is None:
            raise HTTPException(404, f"There is no order {order_id}.")
        state = order.state
    try:
        shipping = app.sync.handle(f"order-{order_id}-ship").get()
    except TaskNotFound:
        return {"state": state}
    return {"state": state, "shipping": shipping.state, "why": shipping.reason}


@web.post("/imports", status_code=202)
def start_import(prices: PriceList) -> dict[str, str]:
    """Start an import; the same list posted again while it runs is the same import."""
    return {"import": import_products.sync.submit(prices.rows).id}


@web.get("/imports/{task_id}")
def show_import(task_id: str) -> dict[str, Any]:
    task = _import(task_id)
    return {"state": task.state, "percent": task.progress, "at": task.progress_message}


@web.delete("/imports/{task_id}")
def stop_import(task_id: str) -> dict[str, Any]:
    _import(task_id)
    state: State | None = app.sync.handle(task_id).cancel(wait=10)
    return {"state": state}


def _import(task_id: str) -> TaskView:
    try:
        return app.sync.handle(task_id).get()
    except TaskNotFound as error:
        raise HTTPException(404, str(error)) from None
