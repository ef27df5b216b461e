"""A URL is shown without what is secret in it, whatever its shape."""

import pytest

from andon import Andon
from andon.model.urls import shown

SECRET = "s3cret"

URLS = {
    "postgresql://user:s3cret@host/db": "postgresql://user:***@host/db",
    "postgresql://user@host/db?password=s3cret&sslmode=require": (
        "postgresql://user@host/db?password=***&sslmode=require"
    ),
    "postgresql:///db?host=/tmp&user=u&sslpassword=s3cret": (
        "postgresql:///db?host=/tmp&user=u&sslpassword=***"
    ),
    "postgresql://u:s3cret@h1,u:s3cret@h2:5432/db": "postgresql://u:***@h2:5432/db",
    "postgres://u:s3cret@[::1]:5432/db": "postgres://u:***@[::1]:5432/db",
    "postgresql://user:%40s3cret@h/db": "postgresql://user:***@h/db",
    "postgresql://user:a:s3cret@host/db": "postgresql://user:***@host/db",
    "postgresql://user:a@s3cret@host/db": "postgresql://user:***@host/db",
    "postgresql://user:a/s3cret@host/db": "postgresql://***@host/db",
    "postgresql://user:12/s3cret@host/db": "postgresql://***@host/db",
    "postgresql://user:a?s3cret@host/db": "postgresql://***",
    "postgresql://user:a#s3cret@host/db": "postgresql://***",
    "postgresql://user:a,s3cret@h1,h2/db": "postgresql://user:***@h1,h2/db",
    "redis://:s3cret@host:6379/0": "redis://:***@host:6379/0",
    "rediss://user:s3cret@host": "rediss://user:***@host",
    "valkey://user:s3cret@host": "valkey://user:***@host",
    "redis+sentinel://u:s3cret@h1:1,h2:2/mymaster/0": "redis+sentinel://u:***@h1:1,h2:2/mymaster/0",
    "redis+cluster://:s3cret@h1,h2": "redis+cluster://:***@h1,h2",
    "nats://s3cret@host:4222": "nats://***@host:4222",
    "nats://user:s3cret@h1:4222,h2:4222": "nats://user:***@h1:4222,h2:4222",
    "nats://s3cret@h1,s3cret@h2": "nats://***@h2",
    "tls://s3cret@host": "tls://***@host",
    "http://user:s3cret@service:8640": "http://user:***@service:8640",
    "https://service/?token=s3cret": "https://service/?token=***",
    "s3cret@nowhere": "***",
}

PLAIN = [
    "memory://",
    "sqlite:///andon.db",
    "sqlite:////a@b/tasks.db?synchronous=normal",
    "postgresql://user@host/db?namespace=shop",
    "redis://host:6379/1?namespace=a&partitions=4",
    "nats://host:4222?storage=file&replicas=3",
    "http://localhost:8640",
]


@pytest.mark.parametrize(("url", "told"), URLS.items())
def test_a_password_or_token_is_hidden(url: str, told: str):
    assert shown(url) == told
    assert SECRET not in told


@pytest.mark.parametrize("url", PLAIN)
def test_what_has_no_secret_is_shown_as_it_is(url: str):
    assert shown(url) == url


@pytest.mark.parametrize("url", URLS)
def test_the_repr_of_an_application_does_not_tell_it(url: str):
    assert SECRET not in repr(Andon(url))
