"""Every route with every kind of wrong credentials: always 401, in the face's shape, with nothing
changed."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from tests.service.kit import serving

from andon import Andon
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import BASE, HOUR, at, definition, nothing_moves, refused, slugid
from .signer import Signer
from .test_access import GOOD, NEEDING, PUBLIC, Request, Service

DAY = 86_400.0
EVERYTHING = ["*"]


class Wrong(NamedTuple):
    """A header, and a URL, that are wrong together."""

    header: str | None
    url: str


Make = Callable[[Signer, Request, str], Wrong]
"""From a client that may do everything, a request and its URL."""


def by_header(make: Callable[[Signer, Request, str], str]) -> Make:
    return lambda root, request, url: Wrong(make(root, request, url), url)


def by_signer(make: Callable[[Signer], Signer], **how: float) -> Make:
    def made(root: Signer, request: Request, url: str) -> Wrong:
        shifted: dict[str, Any] = {"ts": round(time.time() + how["ts"])} if "ts" in how else {}
        return Wrong(make(root).header(request.method, url, **shifted), url)

    return made


def changed(text: str, name: str) -> str:
    """The header with the first byte of one attribute changed."""
    place = text.index(f'{name}="') + len(name) + 2
    return text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]


def of_attribute(name: str) -> Make:
    def made(root: Signer, request: Request, url: str) -> str:
        return changed(root.temporary(EVERYTHING).header(request.method, url), name)

    return by_header(made)


def bewit_of(path: str) -> Make:
    def made(root: Signer, request: Request, url: str) -> Wrong:
        signed = root.signed_url(f"{url.partition(BASE)[0]}{BASE}{path}", 10**10)
        return Wrong(None, f"{url}?{signed.partition('?')[2]}")

    return made


def signed_twice(root: Signer, request: Request, url: str) -> Wrong:
    return Wrong(root.header(request.method, url), root.signed_url(url, 10**10))


def expired_url(root: Signer, request: Request, url: str) -> Wrong:
    return Wrong(None, root.signed_url(url, round(time.time()) - 1))


def foreign(root: Signer) -> Signer:
    return Signer("stranger", root.access_token).temporary(EVERYTHING)


WRONG: dict[str, Make] = {
    "another scheme": by_header(lambda root, request, url: "Bearer abc"),
    "an empty header": by_header(lambda root, request, url: "Hawk"),
    "another key": by_signer(lambda root: root._replace(access_token="x" * 43)),
    "an unknown client": by_signer(lambda root: root._replace(client_id="nobody")),
    "a clock that is 16 minutes behind": by_signer(lambda root: root, ts=-16 * 60.0),
    "a clock that is 16 minutes ahead": by_signer(lambda root: root, ts=16 * 60.0),
    **{f"another {name}": of_attribute(name) for name in ("id", "ts", "nonce", "mac", "ext")},
    "another path": by_header(lambda root, request, url: root.header(request.method, url + "x")),
    "another method": by_header(lambda root, request, url: root.header("PATCH", url)),
    "another host": by_header(
        lambda root, request, url: root.header(request.method, url.replace("127.0.0.1", "other"))
    ),
    "a certificate that has expired": by_signer(lambda root: root.temporary(EVERYTHING, life=-400)),
    "a certificate of the future": by_signer(
        lambda root: root.temporary(EVERYTHING, start=time.time() + 400)
    ),
    "a certificate for 32 days": by_signer(lambda root: root.temporary(EVERYTHING, life=32 * DAY)),
    "a certificate of a foreign issuer": by_signer(foreign),
    "a certificate of a foreign name": by_signer(
        lambda root: root.temporary(EVERYTHING, name="made/it")._replace(client_id="made/that")
    ),
    "a scope that was not signed": by_signer(
        lambda root: (made := root.temporary(["queue:x"]))._replace(
            certificate={**(made.certificate or {}), "scopes": EVERYTHING}
        )
    ),
    "a scope that its issuer has not": by_signer(lambda root: NARROW["signer"].temporary(["*"])),
    "scopes restricted to what it has not": by_header(
        lambda root, request, url: NARROW["signer"].header(
            request.method, url, authorized=EVERYTHING
        )
    ),
    "a header of 33 KiB": by_header(
        lambda root, request, url: root.header(request.method, url, ext="A" * 33 * 1024)
    ),
    "a signed URL of another path": bewit_of("/task/another"),
    "a signed URL that has expired": expired_url,
    "a signed URL beside a header": signed_twice,
}
NARROW: dict[str, Signer] = {}
"""A client that may little, once there is a service."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    app = Andon(f"sqlite:///{tmp_path_factory.mktemp('wrong')}/tasks.db")
    with serving(app) as first:
        first.call(first.service.authentication.clients.create("first", []))
    settings = TaskclusterSettings(claim_wait=0.0)
    with (
        serving(app, taskcluster=settings, require_token=True) as running,
        running.client() as http,
    ):
        made = Service(running, http)
        clients = running.service.authentication.clients
        token, _ = running.call(clients.create("narrow", ["queue:ping"]))
        NARROW["signer"] = Signer("narrow", token)
        yield made


def send(service: Service, request: Request, wrong: Wrong) -> httpx.Response:
    headers = {} if wrong.header is None else {"authorization": wrong.header}
    options = {} if request.body is None else {"json": request.body}
    return service.http.request(request.method, wrong.url, headers=headers, **options)


@pytest.fixture(scope="module")
def requests(service: Service) -> dict[str, Request]:
    """One request for each route, which is refused again and again."""
    return {name: make(service) for name, make in {**NEEDING, **PUBLIC}.items()}


@pytest.mark.parametrize("name", sorted({*NEEDING, *PUBLIC}))
@pytest.mark.parametrize("kind", sorted(WRONG))
def test_wrong_credentials_are_refused_by_every_route(
    service: Service, requests: dict[str, Request], name: str, kind: str
):
    request = requests[name]
    url = f"{service.running.url}{BASE}{request.path}"
    wrong = WRONG[kind](service.root, request, url)
    with nothing_moves(service.running):
        answer = send(service, request, wrong)
    refused(answer, 401, "AuthenticationFailed", name)
    assert answer.headers["www-authenticate"] == "hawk"


@pytest.mark.parametrize("name", sorted(NEEDING))
def test_and_the_right_ones_are_taken_after_all_that(service: Service, name: str):
    request = NEEDING[name](service)
    assert service.ask(service.root, request).status_code == GOOD.get(name, 200)


def test_what_is_wrong_with_a_request_is_told_in_the_order_of_the_original(service: Service):
    """The body is parsed, then it is asked who sends it and whether they may, then path, query and
    the form of the body are looked at, and what needs the record comes last."""
    nobody, root = service.root.temporary([]), service.root
    stranger = root._replace(access_token="x" * 43)
    good, bad = f"/task/{slugid()}", "/task/none"
    strange = {"colour": "red"}

    def told(signer: Signer, method: str, path: str, body: Any = None, **options: Any) -> str:
        url = f"{service.running.url}{BASE}{path}"
        options["headers"] = {
            "authorization": signer.header(method, url),
            **({"content-type": "application/json"} if "content" in options else {}),
        }
        if body is not None:
            options["json"] = body
        with nothing_moves(service.running):
            answer = service.http.request(method, url, **options)
        return f"{answer.status_code} {answer.json()['code']}"

    assert told(stranger, "PUT", bad, content=b"{") == "400 MalformedPayload"
    assert told(stranger, "PUT", f"{bad}?a=b", strange) == "401 AuthenticationFailed"
    assert told(nobody, "GET", f"{bad}?a=b") == "403 InsufficientScopes"
    assert told(nobody, "POST", f"{good}/priority?a=b", strange) == "400 InvalidRequestArguments"
    assert told(nobody, "POST", f"{good}/priority", strange) == "400 InputValidationError"
    assert told(nobody, "PUT", good, definition(retries=50)) == "400 InputValidationError"
    assert told(nobody, "PUT", good, definition(deadline=at(-HOUR))) == "403 InsufficientScopes"
    assert told(root, "PUT", good, definition(deadline=at(-HOUR))) == "400 InputError"
    for act in ("schedule", "rerun", "cancel", "runs/0/reclaim", "runs/0/completed"):
        assert told(nobody, "POST", f"{good}/{act}") == "404 ResourceNotFound"
