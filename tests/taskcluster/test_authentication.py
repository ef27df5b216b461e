"""Who the face takes a caller for: certificates, clients, roles, proxies, open services."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from andon.model.errors import AuthenticationFailed, ConfigurationError
from andon.service.taskcluster.trust.authentication import Authentication, Incoming
from andon.service.taskcluster.trust.caller import OPEN, Caller
from andon.service.taskcluster.trust.clients import MOST_CLIENTS
from andon.service.taskcluster.trust.registry import ClientRegistry
from andon.service.trust.access import Access
from andon.service.trust.proxies import Proxies
from andon.stores.memory import MemoryStore

from .signer import SEED, Signer

URL = "http://queue.test/api/queue/v1/task/x%2Fy?a=b%20c"
DAY = 86_400.0
HELD = ("queue:*", "auth:create-client:made/*", "with a space")


class Face:
    """A service that asks who sends requests, without its routes."""

    def __init__(self, *, proxies: Proxies | None = None, is_open: bool = False) -> None:
        self.at = time.time()  #: what it is now by the service's clock, in s UTC
        self.store = MemoryStore("memory://", clock=lambda: round(self.at * 1000))
        ticks = itertools.count()  # no two readings of a clock are alike
        self.registry = ClientRegistry(self.store, clock=lambda: self.at + next(ticks) * 1e-6)
        self.authentication = Authentication(
            self.store,
            Access(self.store, is_open=is_open),
            proxies=proxies,
            clients=self.registry,
        )

    async def client(
        self, client_id: str = "ci", scopes: tuple[str, ...] = HELD, **options: Any
    ) -> Signer:
        token, _ = await self.registry.create(client_id, scopes, **options)
        return Signer(client_id, token)

    async def asked(
        self,
        header: str | None,
        *more: tuple[bytes, bytes],
        url: str = URL,
        method: str = "GET",
        host: bytes = b"queue.test",
        **fields: Any,
    ) -> Caller:
        headers = [(b"host", host), *more]
        if header is not None:
            headers.append((b"authorization", header.encode("latin-1")))
        resource = "/" + url.partition("://")[2].partition("/")[2]
        return await self.authentication.authenticate(
            Incoming(method=method, resource=resource, headers=headers, **fields)
        )

    async def refused(self, header: str | None, *more: tuple[bytes, bytes], **how: Any) -> str:
        with pytest.raises(AuthenticationFailed) as refused:
            await self.asked(header, *more, **how)
        return str(refused.value)


def on(act: Callable[[Face], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        face = Face(**options)
        await face.store.open()
        await act(face)
        await face.store.close()

    asyncio.run(run())


def test_who_sends_no_credentials_has_what_everybody_has():
    async def act(face: Face) -> None:
        nobody = await face.asked(None)
        assert nobody.client_id == ""
        assert nobody.satisfies("queue:get-artifact:public/log")
        assert not nobody.satisfies("queue:get-artifact:private/log")
        await face.registry.set_role("anonymous", ["queue:ping"])
        face.at += 1
        assert (await face.asked(None)).scopes == ("assume:anonymous", "queue:ping")

    on(act)


CERTIFICATES: dict[str, tuple[dict[str, Any], str]] = {
    "31 days": ({"life": 31 * DAY}, ""),
    "32 days": ({"life": 32 * DAY}, "more than 31 days"),
    "a little in the future": ({"start": 4 * 60}, ""),
    "in the future": ({"start": 6 * 60}, "in the future"),
    "expired a little while ago": ({"start": -3600 - 4 * 60}, ""),
    "expired": ({"start": -3600 - 6 * 60}, "has expired"),
    "one scope too many": ({"scopes": ["queue:a", "hooks:b"]}, "hooks:b"),
    "a wider scope": ({"scopes": ["queue*"]}, "queue\\*"),
    "no scope": ({"scopes": []}, ""),
    "a scope with a space": ({"scopes": ["with a space"]}, ""),
    "a scope that cannot be one": ({"scopes": ["queue:\u00e9"]}, "not printable"),
    "another version": ({"version": 2}, "version 1"),
    "a short seed": ({"seed": SEED[:-1]}, "44"),
    "times as text": ({"start_as": "text"}, "cannot be read"),
    "named": ({"name": "made/it"}, ""),
    "named as the issuer may not": ({"name": "other/it"}, "auth:create-client:other/it"),
    "named as its issuer": ({"name": "ci"}, "other than their issuer"),
    "named as nobody can be": ({"name": "made/it twice"}, "client id of their own"),
    "of a foreign issuer": ({"name": "made/it", "issuer": "stranger"}, "no client 'stranger'"),
    "of another client": ({"name": "made/it", "issuer": "other"}, "not signed with"),
    "of the service itself": ({"name": "made/it", "issuer": "andon-tasks/0"}, "not good any more"),
}


@pytest.mark.parametrize("case", CERTIFICATES)
def test_a_certificate_is_accepted_by_its_rules(case: str):
    made, problem = CERTIFICATES[case]

    async def act(face: Face) -> None:
        ci = await face.client()
        await face.client("other", ("*",))
        how = {"scopes": ["queue:a"], **made}
        if "start" in how:
            how["start"] += face.at
        if how.pop("start_as", None):
            signer = ci.temporary(how["scopes"])
            assert signer.certificate is not None
            signer.certificate["start"] = str(signer.certificate["start"])
        else:
            signer = ci.temporary(how.pop("scopes"), **how)
        header = signer.header("GET", URL)
        if problem:
            with pytest.raises(AuthenticationFailed, match=problem):
                await face.asked(header)
            return
        caller = await face.asked(header)
        assert caller.client_id == how.get("name", "ci")
        assert not caller.satisfies("queue:b")

    on(act)


def test_every_field_of_a_certificate_is_signed():
    async def act(face: Face) -> None:
        ci = await face.client()
        for name in (None, "made/it"):
            signer = ci.temporary(["queue:a"], name=name)
            certificate = signer.certificate
            assert certificate is not None
            changed = {
                "scopes": ["queue:b"],
                "start": certificate["start"] - 1,
                "expiry": certificate["expiry"] + 1,
                "seed": "B" + SEED[1:],
                "signature": certificate["signature"].swapcase(),
                "version": 2,
                "issuer": "ci" if name is None else None,
                "unknown": 1,
            }
            for field, value in changed.items():
                forged = Signer(
                    signer.client_id, signer.access_token, {**certificate, field: value}
                )
                assert await face.refused(forged.header("GET", URL)), field

    on(act)


def test_temporary_credentials_issue_no_others():
    async def act(face: Face) -> None:
        ci = await face.client("ci", ("*",))
        for first in (ci.temporary(["*"]), ci.temporary(["*"], name="made/it")):
            for second in (first.temporary(["queue:a"]), first.temporary(["queue:a"], name="x")):
                assert await face.refused(second.header("GET", URL))

    on(act)


def test_restricted_scopes_take_the_place_of_the_callers():
    async def act(face: Face) -> None:
        ci = await face.client()
        caller = await face.asked(ci.header("GET", URL, authorized=["queue:a"]))
        assert caller.scopes == ("queue:a",)
        assert (await face.asked(ci.header("GET", URL, authorized=[]))).scopes == ()
        # What everybody has can be asked for, too.
        public = ["queue:get-artifact:public/log"]
        assert (await face.asked(ci.header("GET", URL, authorized=public))).scopes == (*public,)
        beyond = await face.refused(ci.header("GET", URL, authorized=["queue:a", "hooks:b"]))
        assert "hooks:b" in beyond
        assert await face.refused(ci.header("GET", URL, authorized=["queue:\n"]))

    on(act)


HEADERS = {
    "another scheme": lambda good: good.replace("Hawk", "Bearer"),
    "no scheme": lambda good: good.removeprefix("Hawk "),
    "nothing": lambda good: "",
    "no attributes": lambda good: "Hawk ",
    "an attribute twice": lambda good: f'{good}, ts="1"',
    "an unknown attribute": lambda good: f'{good}, app="x"',
    "no id": lambda good: good.replace('id="ci", ', ""),
    "an empty id": lambda good: good.replace('id="ci"', 'id=""'),
    "no quotes": lambda good: good.replace('id="ci"', "id=ci"),
    "a quote too many": lambda good: f'{good}"',
    "a time that is none": lambda good: good.replace('ts="', 'ts="x'),
    "a time with a sign": lambda good: good.replace('ts="', 'ts="-'),
    "a time with a zero before it": lambda good: good.replace('ts="', 'ts="0'),
    "a long time": lambda good: good.replace('ts="', 'ts="99999999999999999999'),
    "an ext that is no base64": lambda good: f'{good}, ext="*"',
    "an ext that is no JSON": lambda good: f'{good}, ext="bm8="',
    "an ext that is a list": lambda good: f'{good}, ext="W10="',
    "too long": lambda good: f'{good}, ext="{"a" * 32 * 1024}"',
    "bytes beyond ASCII": lambda good: good.replace("nonce1", "n\u00e9nce1"),
    "a wrong mac": lambda good: good.replace('mac="', 'mac="x'),
    "an unknown client": lambda good: good.replace('id="ci"', 'id="someone"'),
    "a body that was not signed": lambda good: f'{good}, hash="abc="',
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_is_not_right_is_refused(case: str):
    async def act(face: Face) -> None:
        ci = await face.client()
        good = ci.header("GET", URL)
        await face.asked(good)
        said = await face.refused(HEADERS[case](good))
        assert said.endswith("."), said

    on(act)


def test_a_header_of_nearly_32_kib_is_read():
    async def act(face: Face) -> None:
        ci = await face.client()
        scopes = [f"queue:route:index.project.branch.build-{number:05d}" for number in range(480)]
        header = ci.temporary(scopes).header("GET", URL)
        assert 30 * 1024 < len(header) < 32 * 1024
        caller = await face.asked(header)
        assert caller.satisfies(scopes[-1])
        longer = ci.temporary([*scopes, "queue:" + "x" * 2000]).header("GET", URL)
        assert "more than 32768 bytes" in await face.refused(longer)

    on(act)


def test_headers_that_count_are_given_once():
    async def act(face: Face) -> None:
        header = (await face.client()).header("GET", URL)
        for twice in ((b"host", b"queue.test"), (b"authorization", header.encode())):
            assert "twice" in await face.refused(header, twice)

    on(act)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (b"Queue.Test", URL),
        (b"queue.test:8080", URL.replace("queue.test", "queue.test:8080")),
        (b"[::1]:8080", URL.replace("queue.test", "[::1]:8080")),
    ],
)
def test_host_and_port_are_those_of_the_host_header(host: bytes, url: str):
    async def act(face: Face) -> None:
        ci = await face.client()
        assert (await face.asked(ci.header("GET", url), host=host)).client_id == "ci"
        assert await face.refused(ci.header("GET", url), host=b"elsewhere:1")

    on(act)


def test_under_tls_the_port_is_443_unless_said():
    async def act(face: Face) -> None:
        ci = await face.client()
        header = ci.header("GET", URL.replace("http:", "https:"))
        assert (await face.asked(header, is_tls=True)).client_id == "ci"
        assert await face.refused(header)

    on(act)


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        (((b"x-forwarded-proto", b"https"),), "https://queue.test/x"),
        (((b"x-forwarded-port", b"8443"),), "http://queue.test:8443/x"),
        (
            ((b"x-forwarded-proto", b"https"), (b"x-forwarded-port", b"8443")),
            "https://queue.test:8443/x",
        ),
        (((b"x-forwarded-proto", b"http"),), "http://queue.test/x"),
    ],
)
def test_only_a_trusted_proxy_says_which_port_was_asked(
    headers: tuple[tuple[bytes, bytes], ...], url: str
):
    async def act(face: Face) -> None:
        ci = await face.client()
        header = ci.header("GET", url)
        for address, good in (("10.1.2.3", True), ("10.2.2.3", False), ("", False)):
            plain = url == "http://queue.test/x"
            if good or plain:
                caller = await face.asked(header, *headers, url=url, address=address)
                assert caller.client_id == "ci"
            else:
                assert await face.refused(header, *headers, url=url, address=address)

    on(act, proxies=Proxies(["10.1.0.0/16"]))


def test_a_trusted_proxy_that_names_no_port_is_refused():
    async def act(face: Face) -> None:
        header = (await face.client()).header("GET", URL)
        for port in (b"0", b"65536", b"http", b"80,80"):
            said = await face.refused(header, (b"x-forwarded-port", port), address="::1")
            assert "no port" in said

    on(act, proxies=Proxies(["::1"]))


def test_what_is_no_address_of_a_proxy_is_refused():
    with pytest.raises(ConfigurationError, match="no address of a proxy"):
        Proxies(["proxy.example"])


def test_an_open_service_lets_everybody_here_do_everything_and_no_page_from_elsewhere():
    async def act(face: Face) -> None:
        assert await face.asked("Hawk whatever", host=b"127.0.0.1:8640") is OPEN
        assert await face.asked(None, host=b"localhost") is OPEN
        assert await face.refused(None, host=b"queue.test")
        foreign = (b"origin", b"http://elsewhere.test")
        assert await face.refused(None, foreign, host=b"127.0.0.1")
        await face.authentication.check("127.0.0.1")

    on(act, is_open=True)


def test_a_service_that_others_can_reach_does_not_start_without_a_client():
    async def act(face: Face) -> None:
        with pytest.raises(ConfigurationError, match="andon token create NAME --taskcluster"):
            await face.authentication.check("0.0.0.0")
        await face.client(expires=round(face.at * 1000) + 1000)
        await face.authentication.check("0.0.0.0")
        face.at += 2
        with pytest.raises(ConfigurationError, match="there is none"):
            await face.authentication.check("0.0.0.0")

    on(act)


# --- clients ---


def test_a_new_client_counts_at_once_and_a_revoked_one_for_a_second():
    async def act(face: Face) -> None:
        await face.asked(None)
        ci = await face.client()
        assert (await face.asked(ci.header("GET", URL))).client_id == "ci"
        await face.registry.revoke("ci")
        face.at += 1
        assert "no client 'ci'" in await face.refused(ci.header("GET", URL))

    on(act)


def test_an_access_token_never_comes_back():
    async def act(face: Face) -> None:
        first = await face.client()
        second_token, _ = await face.registry.renew("ci")
        await face.registry.revoke("ci")
        third = await face.client()
        assert len({first.access_token, second_token, third.access_token}) == 3
        face.at += 1
        assert await face.refused(first.header("GET", URL))
        assert await face.refused(Signer("ci", second_token).header("GET", URL))
        assert (await face.asked(third.header("GET", URL))).client_id == "ci"

    on(act)


def test_a_client_can_be_disabled_and_expire():
    async def act(face: Face) -> None:
        ci = await face.client(expires=round(face.at * 1000) + 60_000)
        header = ci.header("GET", URL)
        await face.registry.switch("ci", disabled=True)
        assert "is disabled" in await face.refused(header)
        assert "is disabled" in await face.refused(ci.temporary(["queue:a"]).header("GET", URL))
        await face.registry.switch("ci", disabled=False)
        face.at += 1
        await face.asked(header)
        face.at += 60
        assert "is expired" in await face.refused(header)

    on(act)


def test_access_tokens_are_not_in_the_store():
    async def act(face: Face) -> None:
        ci = await face.client()
        trust = await face.registry.read()
        assert trust is not None
        assert ci.access_token not in repr(trust)
        stored = await face.store.setting("taskcluster-clients")
        assert stored is not None
        assert ci.access_token.encode() not in stored
        assert repr(trust.key) not in repr(trust)

    on(act)


@pytest.mark.parametrize(
    ("client_id", "scopes", "problem"),
    [
        ("", ["a"], "no client id"),
        ("with space", ["a"], "no client id"),
        ("é", ["a"], "no client id"),
        ("andon-tasks/x", ["a"], "the service's own"),
        ("task-client/x", ["a"], "the service's own"),
        ("ci", ["a\n"], "no scope"),
        ("ci", ["é"], "no scope"),
        ("ci", [""], "no scope"),
        ("ci", ["a**"], "two stars"),
        ("ci", ["x" * 600_000], "KiB"),
        ("there", ["a"], "already"),
    ],
)
def test_a_client_that_cannot_be_is_not_made(client_id: str, scopes: list[str], problem: str):
    async def act(face: Face) -> None:
        await face.client("there")
        before = await face.registry.read()
        with pytest.raises(ConfigurationError, match=problem):
            await face.registry.create(client_id, scopes)
        assert await face.registry.read() == before

    on(act)


def test_scopes_with_spaces_and_long_ones_are_held():
    async def act(face: Face) -> None:
        long = "queue:create-task:" + "x" * 5_000
        ci = await face.client("ci", ("secrets:get:a b c", long, "none but*"))
        caller = await face.asked(ci.header("GET", URL))
        for scope in ("secrets:get:a b c", long, "none but all of it"):
            assert caller.satisfies(scope)

    on(act)


def test_clients_are_counted():
    async def act(face: Face) -> None:
        from andon.service.taskcluster.trust.clients import new_trust, with_client

        trust = new_trust()
        for number in range(MOST_CLIENTS):
            trust, _ = with_client(trust, f"c{number}", ["a"], now=1)
        with pytest.raises(ConfigurationError, match="the most there can be"):
            with_client(trust, "more", ["a"], now=1)

    on(act)


def test_two_that_change_clients_at_once_both_count():
    async def act(face: Face) -> None:
        other = ClientRegistry(face.store)
        made = [face.registry.create(f"a{n}", ["x"]) for n in range(5)]
        made += [other.create(f"b{n}", ["x"]) for n in range(5)]
        tokens = [token for token, _ in await asyncio.gather(*made)]
        trust = await face.registry.read()
        assert trust is not None
        assert len(trust.clients) == 10
        assert len({client.serial for client in trust.clients}) == 10
        assert {trust.access_token(client) for client in trust.clients} == set(tokens)

    on(act)


# --- roles ---


@pytest.mark.parametrize(
    ("held", "wanted", "has"),
    [
        ("assume:worker", "queue:claim-work:p/w", True),
        ("assume:worke", "queue:claim-work:p/w", False),
        ("assume:worker*", "queue:claim-work:p/w", True),
        ("assume:w*", "queue:claim-work:p/w", True),
        ("ass*", "queue:claim-work:p/w", True),
        ("assume:repo:a/b", "queue:route:x", True),
        ("assume:repo:a*", "queue:route:x", True),
        ("assume:repo:*", "queue:route:x", True),
        ("assume:repo:", "queue:route:x", True),
        ("assume:rep", "queue:route:x", False),
        ("assume:first", "last", True),
        ("other", "queue:route:x", False),
    ],
)
def test_who_may_assume_a_role_has_its_scopes(held: str, wanted: str, has: bool):
    async def act(face: Face) -> None:
        roles = {
            "worker": ["queue:claim-work:p/w"],
            "repo:*": ["queue:route:x"],
            "first": ["assume:second"],
            "second": ["assume:first", "last"],  # round in a circle
        }
        for role, scopes in roles.items():
            await face.registry.set_role(role, scopes)
        ci = await face.client("ci", (held,))
        assert (await face.asked(ci.header("GET", URL))).satisfies(wanted) is has
        if has:  # a certificate may carry what its issuer has by a role
            temporary = ci.temporary([wanted]).header("GET", URL)
            assert (await face.asked(temporary)).satisfies(wanted)

    on(act)


def test_a_role_is_set_whole_and_taken_back():
    async def act(face: Face) -> None:
        await face.registry.set_role("anonymous", [])
        trust = await face.registry.set_role("x", ["a", "b"])
        assert trust.all_roles["x"] == ("a", "b")
        assert trust.all_roles["anonymous"] == ()
        trust = await face.registry.set_role("anonymous", None)
        assert trust.all_roles["anonymous"]
        for role, scopes in (("", ["a"]), ("x\n", ["a"]), ("x", ["a**"]), ("y", None)):
            with pytest.raises(ConfigurationError):
                await face.registry.set_role(role, scopes)

    on(act)
