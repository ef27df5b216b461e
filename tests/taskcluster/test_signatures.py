"""Requests signed by the clients for Python and JavaScript, held against the rules of the face.

Each is sent to a recording server and tried as it came, and again with every byte that counts
changed once.
"""

import asyncio
import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from andon.model.errors import AuthenticationFailed
from andon.model.settings import TASKCLUSTER_SETTING
from andon.service.taskcluster.trust.authentication import Authentication, Incoming
from andon.service.taskcluster.trust.caller import Caller
from andon.service.taskcluster.trust.hawk import decode_base64
from andon.service.taskcluster.trust.registry import ClientRegistry
from andon.service.trust.access import Access
from andon.stores.memory import MemoryStore

from .environments import node_with, python_with, run_script
from .recording import recording

PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 600
TASK = "AAAAAAAAQAqAAAAAAAAAAA"
SCOPES = ("queue:*", "assume:*", "auth:create-client:somebody/*")
TEMPORARY = ("queue:get-task:*", "queue:create-task:lowest:a b/c", "assume:worker")
EVERYBODY = ("assume:anonymous", "queue:get-artifact:public/*", "queue:list-artifacts:*")
WAYS = {
    "none": ("", ()),
    "own": ("ci/one", SCOPES),
    "restricted": ("ci/one", ("queue:get-task:*",)),
    "temporary": ("ci/one", TEMPORARY),
    "named": ("somebody/else", TEMPORARY),
    "named-restricted": ("somebody/else", ("queue:get-task:x",)),
}
"""Who each way speaks for, and the scopes that it has beyond everybody's."""


class Vector(NamedTuple):
    """One signed request, and how it was signed: `sync own put`."""

    name: str
    request: Incoming

    @property
    def way(self) -> str:
        return self.name.split()[1]

    def header(self, name: bytes) -> bytes | None:
        return dict(self.request.headers).get(name)


class Vectors:
    """What a client signed, and the service that has to tell what it is worth."""

    def __init__(self) -> None:
        self.at = 0.0  #: when they were signed, in s UTC
        self.signed: list[Vector] = []
        self._trust = b""

    def make(self, program: tuple[str | Path, ...], **environment: str) -> None:
        """Have a client send its requests."""
        self.at = time.time()
        token = asyncio.run(self._create())
        with recording() as server:
            given = {
                "rootUrl": server.url,
                "clientId": "ci/one",
                "accessToken": token,
                "taskId": TASK,
                "seconds": SECONDS,
            }
            names = run_script(program, given, **environment)
            assert len(server.requests) == len(names)
            self.signed = [Vector(*both) for both in zip(names, server.requests, strict=True)]

    async def _create(self) -> str:
        store = MemoryStore("memory://")
        await store.open()
        token, _ = await ClientRegistry(store).create("ci/one", SCOPES)
        self._trust = await store.setting(TASKCLUSTER_SETTING) or b""
        await store.close()
        return token

    def said_of(self, requests: list[Incoming], *, after: float = 0) -> list[Caller | str]:
        """The callers of some requests, or why each is refused, so many seconds after they were
        signed."""

        async def ask() -> list[Caller | str]:
            store = MemoryStore("memory://", clock=lambda: round((self.at + after) * 1000))
            await store.open()
            await store.put_setting(TASKCLUSTER_SETTING, self._trust, expect=None)
            authentication = Authentication(store, Access(store, is_open=False))
            said: list[Caller | str] = []
            for request in requests:
                try:
                    said.append(await authentication.authenticate(request))
                except AuthenticationFailed as error:
                    said.append(str(error))
            await store.close()
            return said

        return asyncio.run(ask())


def signed_by_python() -> Vectors:
    vectors = Vectors()
    vectors.make((python_with("taskcluster"), PROGRAMS / "sign.py"))
    return vectors


def signed_by_node() -> Vectors:
    folder = node_with("taskcluster-client")
    vectors = Vectors()
    vectors.make(("node", PROGRAMS / "sign.mjs"), CLIENT_FOLDER=str(folder))
    return vectors


@pytest.fixture(scope="module", params=[signed_by_python, signed_by_node])
def vectors(request: pytest.FixtureRequest) -> Vectors:
    return request.param()


def test_a_signed_request_is_its_clients_with_the_scopes_that_count(vectors: Vectors) -> None:
    said = vectors.said_of([vector.request for vector in vectors.signed])
    for vector, caller in zip(vectors.signed, said, strict=True):
        assert isinstance(caller, Caller), (vector.name, caller)
        client_id, scopes = WAYS[vector.way]
        beyond = () if "restricted" in vector.way else EVERYBODY
        assert caller.client_id == client_id, vector.name
        assert set(caller.scopes) == {*scopes, *beyond}, vector.name


def test_the_clients_sign_in_every_way_there_is(vectors: Vectors) -> None:
    ways = {vector.way for vector in vectors.signed}
    assert ways >= {"own", "restricted", "temporary", "named"}
    assert any(b"bewit" in vector.request.resource.encode() for vector in vectors.signed)


def changed(text: str, place: int) -> str:
    """The text with another byte at a place."""
    return text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]


def each_byte_changed(vector: Vector) -> Iterator[Incoming]:
    """The request with each byte that is signed changed, one after the other."""
    request = vector.request
    replace = msgspec.structs.replace
    for place in range(len(request.resource)):
        yield replace(request, resource=changed(request.resource, place))
    for place in range(len(request.method)):
        yield replace(request, method=changed(request.method, place))
    authorization = vector.header(b"authorization") or b""
    names = {b"authorization", b"host"}
    if b"hash=" in authorization:
        names.add(b"content-type")
        for place in range(len(request.body)):
            body = bytearray(request.body)
            body[place] ^= 1
            yield replace(request, body=bytes(body))
    for index, (name, value) in enumerate(request.headers):
        for place in range(len(value) if name in names else 0):
            other = changed(value.decode("latin-1"), place).encode("latin-1")
            headers = list(request.headers)
            headers[index] = (name, other)
            yield replace(request, headers=headers)


def test_one_byte_changed_anywhere_is_refused(vectors: Vectors) -> None:
    tried = 0
    for vector in vectors.signed:
        if vector.way == "none":
            continue
        requests = list(each_byte_changed(vector))
        for request, said in zip(requests, vectors.said_of(requests), strict=True):
            # A URL in which no bewit is left is not signed at all, and has what everybody has.
            unsigned = "bewit" in vector.name and not isinstance(said, str) and not said.client_id
            assert isinstance(said, str) or unsigned, (vector.name, request)
            tried += 1
    assert tried > 5_000


@pytest.mark.parametrize(("minutes", "good"), [(-16, False), (-14, True), (14, True), (16, False)])
def test_a_clock_may_be_off_by_a_quarter_of_an_hour(
    vectors: Vectors, minutes: int, good: bool
) -> None:
    own = [v for v in vectors.signed if v.way == "own" and "bewit" not in v.name]
    said = vectors.said_of([v.request for v in own], after=minutes * 60)
    assert [isinstance(one, Caller) for one in said] == [good] * len(own)
    assert good or "apart. Set the clock" in str(said)


@pytest.mark.parametrize(("seconds", "good"), [(-60, True), (14 * 60, True), (16 * 60, False)])
def test_a_signed_url_holds_as_long_as_it_says(vectors: Vectors, seconds: int, good: bool) -> None:
    urls = [v for v in vectors.signed if v.name.endswith("own bewit")]
    assert urls
    for said in vectors.said_of([v.request for v in urls], after=seconds):
        assert isinstance(said, Caller) is good, said
        assert good or "ask for a new one" in str(said)


def test_credentials_have_five_minutes_beyond_their_life_on_both_sides(vectors: Vectors) -> None:
    signed = [v.request for v in vectors.signed if v.name.endswith(("temporary get", "named get"))]
    assert signed
    for seconds, good in ((-4 * 60, True), (-6 * 60, False), (SECONDS + 4 * 60, True)):
        said = vectors.said_of(signed, after=seconds)
        assert [isinstance(one, Caller) for one in said] == [good] * len(signed), seconds
    expired = vectors.said_of(signed, after=SECONDS + 14 * 60)
    assert not any(isinstance(one, Caller) for one in expired)


def test_the_hash_of_the_body_is_checked_if_there_is_one(vectors: Vectors) -> None:
    for vector in vectors.signed:
        if not vector.name.endswith("own put"):
            continue
        has_hash = b"hash=" in (vector.header(b"authorization") or b"")
        other = msgspec.structs.replace(vector.request, body=b"{}")
        [said] = vectors.said_of([other])
        assert isinstance(said, str) is has_hash


def test_a_bewit_is_for_its_path_and_for_get(vectors: Vectors) -> None:
    for vector in vectors.signed:
        if not vector.name.endswith("own bewit"):
            continue
        path, _, query = vector.request.resource.partition("?")
        replace = msgspec.structs.replace
        others = [
            replace(vector.request, resource=f"{path}x?{query}"),
            replace(vector.request, resource=f"{path}?a=1&{query}"),
            replace(vector.request, resource=f"{path}?{query}&a=1"),
            replace(vector.request, resource=f"{path}?{query}&{query}"),
            replace(vector.request, method="PUT"),
        ]
        said = vectors.said_of(others)
        assert all(isinstance(one, str) for one in said), said


def test_a_bewit_beside_a_header_is_refused(vectors: Vectors) -> None:
    url = next(v for v in vectors.signed if v.name.endswith("own bewit"))
    header = next(v for v in vectors.signed if v.name.endswith("own get"))
    both = msgspec.structs.replace(url.request, headers=header.request.headers)
    [said] = vectors.said_of([both])
    assert "not in both" in str(said)


RAW = bytes(range(256)) + b"x"
STANDARD = base64.b64encode(RAW).decode()
SAFE = base64.urlsafe_b64encode(RAW).decode()


@pytest.mark.parametrize("text", [STANDARD, SAFE, STANDARD.rstrip("="), SAFE.rstrip("=")])
def test_base64_may_be_of_either_alphabet_padded_or_not(text: str) -> None:
    assert decode_base64(text) == RAW


@pytest.mark.parametrize(
    "text",
    [
        STANDARD.replace("+", "-", 1),
        STANDARD + "=",
        "a",
        "a===",
        "ab=c",
        "é",
        "a b=",
        STANDARD[:-2] + "h=",  # the last character has bits that nobody looks at
    ],
)
def test_base64_of_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        decode_base64(text)
