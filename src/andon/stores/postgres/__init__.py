"""The PostgreSQL store: a schema in a database that is there anyway, shared by any machines."""

from andon.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
