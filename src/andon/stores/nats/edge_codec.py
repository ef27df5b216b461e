"""An edge as its message holds it."""

import msgspec

from andon.contract.edges import Edge
from andon.stores.kit.codec import encode
from andon.stores.nats.jetstream import seq_of, subject_of
from andon.stores.nats.known_edges import KnownEdge
from andon.stores.nats.nats_client import Reply


class _Edge(msgspec.Struct, array_like=True):
    loads: bool
    any_end: bool
    settled: bool
    needs_all: bool = False  #: of the child; an older release says nothing of it
    of_many: bool = False  #: the same


_decode = msgspec.msgpack.Decoder(_Edge).decode


def encoded(edge: Edge, *, needs_all: bool = False, of_many: bool = False) -> bytes:
    """An edge as it is stored."""
    return encode(_Edge(edge.loads, edge.any_end, edge.settled, needs_all, of_many))


def edge_of(msg: Reply) -> KnownEdge:
    """The edge of a message that was read."""
    _, parent, child = subject_of(msg).rsplit(".", 2)
    found = _decode(msg.data)
    edge = Edge(parent, child, found.loads, found.any_end, found.settled)
    return KnownEdge(edge, seq_of(msg), found.needs_all, found.of_many)
