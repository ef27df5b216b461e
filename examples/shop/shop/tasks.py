"""Everything that a customer does not wait for."""

import csv
import io
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy import select

from andon import Andon, Context, Queue, Terminate
from shop.database import Mail, Order, Product, engine, order_of, session


@asynccontextmanager
async def connected() -> AsyncGenerator[None]:
    """What a worker is inside of: its pool of connections is closed when it stops."""
    yield
    engine().dispose()


app = Andon(
    artifacts=os.environ.get("SHOP_FILES"),  # where runs keep files, file:///folder or s3://bucket
    queues=[
        Queue("money", max_concurrent_per_key=1),
        Queue("mail", rate_limit="50/s"),
        Queue("imports", max_concurrent=1),
    ],
    lifespan=connected,
    lease=10,  # seconds after which the runs of a worker that was killed are given to another
)


class BankAway(Exception):
    """The bank does not answer; later it will."""


class Declined(Exception):
    """The bank says no, and will go on saying so."""


@app.task(queue="money", retry_on=(BankAway,), retry_delay=2, max_retries=5, timeout=30)
def charge(ctx: Context, order: int) -> str:
    """Charge an order, once. The key `customer` keeps two charges of one customer apart."""
    with session() as opened:
        found = order_of(opened, order)
        if found.charged_by:  # a run before this one got so far, and was lost before it said so
            return found.state
        if found.cents <= 0:
            raise Terminate("nothing to charge")
        if found.email.startswith("broke@"):
            raise Declined(found.email)
        if found.email.startswith("slow@") and ctx.attempt == 1:
            raise BankAway("timeout")
        found.state, found.charged_by = "paid", ctx.fence
    return "paid"


@app.task(queue="mail", max_retries=8, headers={"via": "smtp.example.org"})
def send_mail(to: str, subject: str) -> None:
    with session() as opened:
        opened.add(Mail(to=to, subject=subject))


@app.task(isolation="process", timeout=60)
def invoice(order: int, cents: int) -> str:
    """Draw an invoice. Drawing takes a processor for itself, so it runs in a child process."""
    lines = [f"Invoice {order}", f"Sum: {cents / 100:.2f}", f"Tax: {cents * 19 / 11900:.2f}"]
    return "\n".join(lines)


@app.task(load_dependencies=True)
async def ship(ctx: Context, order: int) -> str:
    """Once it is paid and its invoice is drawn: out of the store, and a mail to the customer.

    A worker may be lost after any line, and the next run begins at the first: so what has been
    written is looked at before it is written, and the mail has an id that a repeat finds again.
    """
    documents = [parent.result for parent in ctx.dependencies.values()]
    with session() as opened:
        found = order_of(opened, order)
        if found.state != "shipped":
            product = opened.get_one(Product, found.sku, with_for_update=True)
            if product.stock < 1:
                raise Terminate(f"{found.sku} is sold out")
            product.stock -= 1
            found.state = "shipped"
        to = found.email
    await ctx.artifact("invoice.txt", str(documents[-1]))
    mail = send_mail.options(id=f"order-{order}-mail")
    await mail.submit(to, f"Order {order} is on its way")
    return to


@app.task(queue="imports", unique=True, on_held="return", max_heartbeat_interval=30)
def import_products(ctx: Context, rows: str) -> dict[str, int]:
    """Take in a price list: it shows how far it is, and stops when it is cancelled."""
    listed = list(csv.DictReader(io.StringIO(rows)))
    taken = 0
    for number, row in enumerate(listed):
        ctx.raise_if_cancelled()
        ctx.progress(number * 100 // len(listed), row["sku"])
        with session() as opened:
            opened.merge(
                Product(sku=row["sku"], name=row["name"], cents=int(row["cents"]), stock=10)
            )
        taken += 1
    return {"taken": taken}


@app.task
def remind(order: int) -> bool:
    """Three days later: an order that nobody paid is forgotten."""
    with session() as opened:
        found = order_of(opened, order)
        if found.state == "new":
            found.state = "forgotten"
        return found.state == "forgotten"


@app.task
def sales() -> str:
    """What was sold, by product."""
    with session() as opened:
        sold = opened.scalars(select(Order).where(Order.state.in_(("paid", "shipped"))))
        sums: dict[str, int] = {}
        for order in sold:
            sums[order.sku] = sums.get(order.sku, 0) + order.cents
    return json.dumps(sums, sort_keys=True)


checksum = app.command("checksum", ["cksum"], queue="files")
