"""Signed URLs: what they are good for, for how long, and what no one can make of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil
import pytest

from andon.model.errors import AuthenticationFailed, ConfigurationError
from andon.service.settings import Settings
from andon.service.trust import runtokens, signedurls
from andon.service.trust.signedurls import Signed

from .conftest import make_app
from .kit import Running, problem, serving
from .test_files import MIB, Held, put
from .test_registered import register

KEYS = runtokens.new_keys(0)
SIGNED = Signed(KEYS.namespace, "PUT", "t", 0, "public/a b", 1_000, "text/plain")


@pytest.fixture
def held(service: Running) -> Held:
    return Held(service)


def opaque(keys: runtokens.Keys = KEYS, **changed: Any) -> str:
    path = signedurls.path_of(keys, msgspec.structs.replace(SIGNED, **changed))
    assert path.startswith(signedurls.PREFIX)
    return path.removeprefix(signedurls.PREFIX)


def test_a_signed_path_says_what_was_signed():
    assert signedurls.verify(KEYS, opaque(), "PUT", 999) == SIGNED
    assert opaque().replace(".", "").replace("-", "").replace("_", "").isalnum()


def test_it_holds_for_its_method_and_until_its_end():
    with pytest.raises(AuthenticationFailed, match="expired"):
        signedurls.verify(KEYS, opaque(), "PUT", 1_000)
    with pytest.raises(AuthenticationFailed, match="for PUT"):
        signedurls.verify(KEYS, opaque(), "GET", 0)


def test_it_outlives_one_turn_of_the_keys_and_not_two():
    once = runtokens.new_keys(1, KEYS)
    assert signedurls.verify(once, opaque(), "PUT", 0) == SIGNED
    with pytest.raises(AuthenticationFailed):
        signedurls.verify(runtokens.new_keys(2, once), opaque(), "PUT", 0)


def test_of_another_namespace_it_is_none():
    with pytest.raises(AuthenticationFailed):
        signedurls.verify(KEYS, opaque(namespace="other"), "PUT", 0)
    with pytest.raises(AuthenticationFailed):
        signedurls.verify(KEYS, opaque(runtokens.new_keys(0)), "PUT", 0)


def test_one_letter_changed_anywhere_is_refused():
    good = opaque()
    for place in range(len(good)):
        other = "A" if good[place] != "A" else "B"
        with pytest.raises(AuthenticationFailed):
            signedurls.verify(KEYS, f"{good[:place]}{other}{good[place + 1 :]}", "PUT", 0)
    for bad in ("", ".", "..", "a.b.c", good + "A", good[:-1], "é"):
        with pytest.raises(AuthenticationFailed):
            signedurls.verify(KEYS, bad, "PUT", 0)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Running]:
    """A service that asks for tokens."""
    from andon.service.trust.registry import Registry

    app = make_app(f"sqlite:///{tmp_path}/tasks.db")

    async def first_token() -> None:
        engine = await app.connections.engine()
        await Registry(engine.store).create("first", ["*"])  # type: ignore[attr-defined]
        await app.close()

    import asyncio

    asyncio.run(first_token())
    with serving(app, require_token=True) as running:
        yield running


def test_a_url_needs_no_token_where_everything_else_does(guarded: Running):
    token, _ = guarded.call(guarded.service.access.registry.create("reader", ["tasks:read:*"]))
    reader = {"Authorization": f"Bearer {token}"}
    with guarded.client() as http:
        held = Held(guarded)
        made = register(http, held, "log", content_type="text/plain").json()
        sent = http.put(made["put_url"], content=b"xy", headers={"Content-Type": "text/plain"})
        assert sent.status_code == 200
        problem(http.get(f"{held.files}/log/url"), 401, "unauthenticated")
        found = http.get(f"{held.files}/log/url", headers=reader).json()
        answer = http.get(found["url"])
        assert answer.content == b"xy"
        assert answer.headers["content-security-policy"] == "sandbox"
        assert answer.headers["content-disposition"].startswith("attachment")
        # Each is good for its own method alone.
        problem(http.get(made["put_url"]), 401, "unauthenticated")
        problem(http.put(found["url"], content=b"y"), 401, "unauthenticated")
        part = http.get(found["url"], headers={"Range": "bytes=0-0"})
        assert part.status_code == 206


def test_what_is_sent_has_the_type_that_was_registered(http: httpx.Client, held: Held):
    made = register(http, held, "log", content_type="text/plain").json()
    for headers in ({"Content-Type": "text/html"}, {}):
        told = http.put(made["put_url"], content=b"x", headers=headers)
        problem(told, 403, "other-content-type")
    assert not http.get(held.files).json()["artifacts"][0]["present"]


def test_a_cut_upload_leaves_nothing_and_a_second_one_replaces(http: httpx.Client, held: Held):
    url = register(http, held, "log", content_type="a/b").json()["put_url"]
    headers = {"Content-Type": "a/b"}

    def cut() -> Iterator[bytes]:
        yield b"x" * 600_000
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        http.put(url, content=cut(), headers=headers)
    assert not http.get(held.files).json()["artifacts"][0]["present"]
    for content in (b"first", b"second"):
        assert http.put(url, content=content, headers=headers).status_code == 200
    assert http.get(f"{held.files}/log").content == b"second"


def test_an_upload_that_is_too_large_is_refused(tmp_path: Path):
    app = make_app(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, max_artifact=1_000) as running, running.client() as http:
        url = register(http, Held(running), "log", content_type="a/b").json()["put_url"]
        headers = {"Content-Type": "a/b"}
        problem(http.put(url, content=b"x" * 1_001, headers=headers), 413, "body-too-large")
        assert http.put(url, content=b"x" * 1_000, headers=headers).status_code == 200


def test_a_url_for_what_has_gone_leads_nowhere(service: Running, http: httpx.Client, held: Held):
    put(http, held, "log", b"x", params={"expires_in": 0.2})
    url = http.get(f"{held.files}/log/url").json()["url"]
    made = register(http, held, "other", content_type="a/b").json()
    kept = service.call(service.service.engine.artifacts())
    service.call(kept.forget(held.id))
    problem(http.get(url), 404, "artifact-not-found")
    sent = http.put(made["put_url"], content=b"x", headers={"Content-Type": "a/b"})
    problem(sent, 404, "artifact-not-found")


@pytest.mark.parametrize(
    ("settings", "headers", "origin"),
    [
        ({}, {}, None),
        ({"public_url": "https://tasks.example.org/"}, {}, "https://tasks.example.org"),
        ({}, {"X-Forwarded-Proto": "https"}, None),
        (
            {"proxies": ("127.0.0.1",)},
            {"X-Forwarded-Proto": "https", "Host": "localhost"},
            "https://localhost",
        ),
        (
            {"proxies": ("127.0.0.0/8",)},
            {"X-Forwarded-Port": "8443", "X-Forwarded-Proto": "https", "Host": "localhost"},
            "https://localhost:8443",
        ),
        (
            {"proxies": ("127.0.0.0/8",)},
            {"X-Forwarded-Proto": "gopher", "Host": "localhost"},
            "http://localhost",
        ),
    ],
)
def test_a_url_begins_where_the_service_was_asked_or_is_said_to_be(
    tmp_path: Path, settings: dict[str, Any], headers: dict[str, str], origin: str | None
):
    app = make_app(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, **settings) as running, running.client() as http:
        held = Held(running)
        put(http, held, "log", b"x")
        url = http.get(f"{held.files}/log/url", headers=headers).json()["url"]
        assert url.startswith(f"{origin or running.url}/blobs/")


@pytest.mark.parametrize(
    "url",
    ["tasks.example.org", "ftp://x", "https://", "https://x/y", "https://x?y", "https://a@x",
     "https://x:99999"],
)  # fmt: skip
def test_a_public_url_is_scheme_host_and_port(url: str):
    with pytest.raises(ConfigurationError, match="public_url"):
        Settings(public_url=url).check()


@pytest.mark.slow
def test_memory_stays_bounded_for_a_file_of_64_mib_sent_by_a_url(http: httpx.Client, held: Held):
    process = psutil.Process()
    put(http, held, "warm", b"x" * MIB)
    url = register(http, held, "big", content_type="a/b").json()["put_url"]
    http.put(url, content=b"x" * MIB, headers={"Content-Type": "a/b"})
    before = most = process.memory_info().rss
    piece = b"x" * MIB

    def pieces() -> Iterator[bytes]:
        nonlocal most
        for _ in range(64):
            most = max(most, process.memory_info().rss)
            yield piece

    sent = http.put(url, content=pieces(), headers={"Content-Type": "a/b"})
    assert sent.json()["size"] == 64 * MIB
    fetch = http.get(f"{held.files}/big/url").json()["url"]
    size = 0
    with http.stream("GET", fetch) as reply:
        for part in reply.iter_bytes(MIB):
            size += len(part)
            most = max(most, process.memory_info().rss)
    assert size == 64 * MIB
    assert most - before < 32 * MIB, f"{(most - before) / MIB:.0f} MiB more"
