"""No socket outlives what it was for, however that ended."""

import socket
from typing import Any

import pytest
from servers.redis import RedisServer

from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.stores.kit.codec import encode
from andon.stores.redis import blocking
from andon.stores.redis.clock import RedisClock
from andon.stores.redis.location import parse
from andon.stores.redis.scripts import script


def test_a_line_that_comes_about_while_the_store_closes_is_closed(
    shared: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = blocking.BlockingLine(parse(shared.url("sockets")), RedisClock())
    made: list[socket.socket] = []
    connect = socket.create_connection

    def closed_meanwhile(*arguments: Any, **options: Any) -> socket.socket:
        made.append(connect(*arguments, **options))
        line.close()
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", closed_meanwhile)
    with pytest.raises(StoreUnavailable):
        line.run(script("states"), 0, encode([]))
    assert [one.fileno() for one in made] == [-1]


def test_no_socket_is_made_for_authorities_that_cannot_be_read(
    shared: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: made.append(1))
    url = f"rediss://127.0.0.1:{shared.port}/0?ca=/nowhere/ca.pem"
    line = blocking.BlockingLine(parse(url), RedisClock())
    with pytest.raises(ConfigurationError, match=r"/nowhere/ca\.pem"):
        line.run(script("states"), 0, encode([]))
    assert made == []
