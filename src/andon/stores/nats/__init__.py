"""The store on NATS JetStream: records are messages, guards are the server's compare-and-set."""

from andon.stores.nats.store import NatsStore

__all__ = ["NatsStore"]
