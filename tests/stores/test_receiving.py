"""What a server sends is received in pieces for which the process has memory at hand."""

import asyncio

from andon.stores.kit.receiving import AT_ONCE, receive_less

SENT = bytes(8 * AT_ONCE)


class Receives(asyncio.Protocol):
    def __init__(self) -> None:
        self.pieces: list[int] = []
        self.all_is_here: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        receive_less(transport)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(len(data))
        if sum(self.pieces) == len(SENT):
            self.all_is_here.set_result(None)


async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(SENT)
    await writer.drain()
    writer.close()


async def test_a_large_answer_comes_whole_and_in_small_pieces() -> None:
    async with await asyncio.start_server(send, "127.0.0.1") as server:
        host, port = server.sockets[0].getsockname()
        _, protocol = await asyncio.get_running_loop().create_connection(Receives, host, port)
        async with asyncio.timeout(10):
            await protocol.all_is_here
    assert max(protocol.pieces) <= AT_ONCE


async def test_a_transport_with_a_buffer_of_its_own_is_left_as_it_is() -> None:
    class OfItsOwn(asyncio.BaseTransport):
        __slots__ = ()

    receive_less(OfItsOwn())
