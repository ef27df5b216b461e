"""What a URL may say, and the sentence for what it may not."""

import pytest

from andon.model.errors import ConfigurationError
from andon.stores.redis.location import parse


def test_the_parts_of_a_url() -> None:
    found = parse("redis://user:p%40ss@host:7000/3?namespace=shop&partitions=4&wait=1")
    assert found.addresses == (("host", 7000),)
    assert (found.username, found.password, found.database) == ("user", "p@ss", 3)
    assert (found.namespace, found.partitions, found.wait) == ("shop", 4, 1)


@pytest.mark.parametrize(
    ("url", "kind", "tls"),
    [
        ("redis://h", "single", False),
        ("rediss://h", "single", True),
        ("valkey://h", "single", False),
        ("redis+cluster://h", "cluster", False),
        ("rediss+cluster://h", "cluster", True),
        ("redis+sentinel://h/primary", "sentinel", False),
    ],
)
def test_a_scheme_says_what_is_there(url: str, kind: str, *, tls: bool) -> None:
    found = parse(url)
    assert (found.kind, found.tls, found.namespace) == (kind, tls, "andon")


def test_several_nodes_are_named_with_commas() -> None:
    assert parse("redis+cluster://a:1,b:2,[::1]:3").addresses == (("a", 1), ("b", 2), ("::1", 3))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://h?namespace=Shop", "a namespace is a lower-case letter"),
        ("redis://h?namespace=", "a namespace is a lower-case letter"),
        (f"redis://h?namespace={'a' * 33}", "a namespace is a lower-case letter"),
        ("redis://h?namespace=a:b", "a namespace is a lower-case letter"),
        ("redis://h?partitions=0", "a number from 1"),
        ("redis://h?partitions=5000", "more than 1024"),
        ("redis://h?max_events=x", "a number from 1"),
        ("redis://h?fast=1", "is not an option of the Redis store"),
        ("redis://h/one", "is not a database"),
        ("redis://h:99999", "a port from 1 to 65535"),
        ("redis+cluster://h/1", "database 0 only"),
        ("redis+sentinel://h", "needs the name of the primary"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_sentence(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse(url)


def test_the_password_is_never_shown() -> None:
    assert "secret" not in parse("redis://user:secret@host").shown
