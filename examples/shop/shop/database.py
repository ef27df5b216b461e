"""The shop's own tables, and the sessions that tasks and requests use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from sqlalchemy import BigInteger, Engine, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Product(Base):
    __tablename__ = "product"

    sku: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    cents: Mapped[int]
    stock: Mapped[int] = mapped_column(default=0)


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    sku: Mapped[str]
    email: Mapped[str]
    cents: Mapped[int]
    state: Mapped[str] = mapped_column(default="new")
    charged_by: Mapped[int] = mapped_column(BigInteger, default=0)  # fence of the run that charged


class Mail(Base):
    """Mails that were sent: what a mail server would have in its log."""

    __tablename__ = "mail"

    id: Mapped[int] = mapped_column(primary_key=True)
    to: Mapped[str]
    subject: Mapped[str]


@cache
def engine() -> Engine:
    """The engine of this process, made at the first use."""
    url = os.environ.get("SHOP_DATABASE", "sqlite:///shop.db")
    made = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    Base.metadata.create_all(made)
    return made


@contextmanager
def session() -> Iterator[Session]:
    """A session that commits at the end of the block, or leaves nothing behind."""
    with Session(engine(), expire_on_commit=False) as opened, opened.begin():
        yield opened


def order_of(opened: Session, order_id: int) -> Order:
    """An order, held until the session commits. Raises `LookupError`."""
    found = opened.scalar(select(Order).where(Order.id == order_id).with_for_update())
    if found is None:
        raise LookupError(f"There is no order {order_id}.")
    return found
