"""A service that asks for client certificates, and clients that show one, none, or a wrong one."""

import asyncio
import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from servers.authority import Authority, Signed
from tests.service.kit import Running, serving

from andon import Andon
from andon.client.jobs import JobsClient
from andon.contract.outcomes import Verdict
from andon.contract.requests import ClaimRequest, Renewal
from andon.engine.base import Submission
from andon.engine.http.engine import HttpEngine
from andon.engine.http.place import ClientCertificate
from andon.lifecycle.commands import Complete
from andon.model.errors import AndonError, AuthenticationFailed, ConfigurationError
from andon.service.server import serve
from andon.service.service import Service
from andon.service.settings import Settings
from andon.service.trust.registry import Registry
from andon.stores.registry import open_store

from .kit import ANDON, HERE, Process


class Place:
    """A service, its authority, and the certificate of a client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder, "authority")
        self.own = self.authority.service()
        self.client = self.authority.client("client")

    @contextmanager
    def serving(self, **settings: Any) -> Iterator[Running]:
        app = Andon(f"sqlite:///{self.folder}/tasks.db")
        with serving(
            app,
            certificate=self.own.file,
            private_key=self.own.key,
            client_ca=self.authority.file,
            **settings,
        ) as running:
            yield running


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", place.authority.file)
    monkeypatch.delenv("ANDON_CLIENT_CERTIFICATE", raising=False)
    monkeypatch.delenv("ANDON_CLIENT_KEY", raising=False)
    return place


def engine_of(url: str, shown: Signed | None, *, patience: float = 10) -> HttpEngine:
    certificate = None if shown is None else ClientCertificate(shown.file, shown.key)
    return HttpEngine(url, certificate=certificate, patience=patience)


async def test_a_client_with_a_certificate_submits_runs_and_renews(place: Place):
    with place.serving() as running:
        engine = engine_of(running.url, place.client)
        await engine.open()
        try:
            with engine.listen(["ready:default"]) as hints:
                assert await hints.wait(60)  # the stream has begun
                await engine.submit([Submission(id="a", name="job")])
            request = ClaimRequest(
                worker="w", token="t", queues=("default",), limit=1, lease_ms=60_000
            )
            [task] = await engine.claim(request)
            renewal = Renewal(task="a", run=task.status.run, lease_ms=60_000)
            assert await asyncio.to_thread(engine.renew_blocking, [renewal]) == [Verdict.OK]
            await engine.report(task, Complete())
        finally:
            await engine.close()


async def refused(url: str, shown: Signed | None) -> None:
    engine = engine_of(url, shown, patience=0.1)
    with pytest.raises(AndonError, match=r"client certificate|did not answer") as caught:
        await engine.open()
    # The other end may have gone before its alert was read; then nothing more is known of it.
    assert isinstance(caught.value, AuthenticationFailed) or "did not answer" in str(caught.value)
    await engine.close()


async def test_who_shows_none_a_strangers_or_an_old_one_is_not_let_in(place: Place, tmp_path: Path):
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    past = -datetime.timedelta(days=1)
    with place.serving() as running:
        await refused(running.url, None)
        await refused(running.url, Authority(stranger, "authority").client("client"))
        await refused(running.url, place.authority.client("old", ends_in=past))
        [requests] = running.service.metrics.requests.collect()
        assert not requests.samples  # none of them came to the point of asking anything
        await (good := engine_of(running.url, place.client)).open()
        await good.close()


async def test_a_certificate_lets_in_and_a_token_says_what_may_be_done(place: Place):
    store = open_store(f"sqlite:///{place.folder}/tasks.db")
    await store.open()
    text, _ = await Registry(store).create("all", ["*"])
    await store.close()
    with place.serving(require_token=True) as running:
        certificate = ClientCertificate(place.client.file, place.client.key)
        without = HttpEngine(running.url, certificate=certificate)
        with pytest.raises(AuthenticationFailed, match="needs a token"):
            await without.open()
        engine = HttpEngine(running.url, token=text, certificate=certificate)
        await engine.open()
        await engine.close()


async def test_the_environment_names_the_certificate(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    both = tmp_path / "both.pem"
    both.write_text(place.client.text)
    monkeypatch.setenv("ANDON_CLIENT_CERTIFICATE", str(both))
    with place.serving() as running:
        async with Andon(running.url) as app:
            handle = await app.submit("job")
            assert (await handle.status()).value == "pending"
        async with JobsClient(running.url) as jobs:
            assert (await jobs.submit("job")).status == "QUEUED"


async def test_the_code_names_the_certificate_before_the_environment_does(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    both = tmp_path / "both.pem"
    both.write_text(place.client.text)
    monkeypatch.setenv("ANDON_CLIENT_CERTIFICATE", "nowhere.pem")
    with place.serving() as running:
        for shown in (both, str(both), (place.client.file, Path(place.client.key or ""))):
            async with Andon(running.url, client_certificate=shown) as app:
                handle = await app.submit("job")
                assert (await handle.status()).value == "pending"
            async with JobsClient(running.url, client_certificate=shown) as jobs:
                assert (await jobs.submit("job")).status == "QUEUED"
        sync = Andon(running.url, client_certificate=both).sync
        assert (await asyncio.to_thread(sync.submit, "job")).id
        await asyncio.to_thread(sync.close)


async def test_an_application_with_a_certificate_runs_its_tasks(place: Place):
    with place.serving() as running:
        app = Andon(running.url, client_certificate=(place.client.file, place.client.key or ""))

        @app.task(name="add")
        async def add(a: int, b: int) -> int:
            return a + b

        async with asyncio.timeout(100), app, app.working():
            assert await (await add.submit(1, 2)).result() == 3


@pytest.mark.parametrize("given", ["", (), ("a", ""), ("a", "b", "c"), 5])
async def test_what_names_no_certificate_is_refused(given: Any):
    app = Andon("https://127.0.0.1:1", client_certificate=given)
    with pytest.raises(ConfigurationError, match="client_certificate= names a PEM file"):
        await app.open()


@pytest.mark.parametrize(
    ("certificate", "key"), [("nowhere.pem", None), ("good", "nowhere.pem"), ("good", "other")]
)
async def test_a_client_certificate_that_cannot_be_used_is_named(
    place: Place, certificate: str, key: str | None
):
    other = place.authority.client("other")
    files = {"good": place.client.file, "other": other.key}
    shown = ClientCertificate(files.get(certificate, certificate), files.get(key or "", key))
    with place.serving() as running:
        engine = HttpEngine(running.url, certificate=shown)
        with pytest.raises(ConfigurationError, match=r"client certificate in .*pem"):
            await engine.open()
        await engine.close()


def test_a_key_without_its_certificate_is_refused():
    with pytest.raises(ConfigurationError, match="set ANDON_CLIENT_CERTIFICATE"):
        ClientCertificate.read({"ANDON_CLIENT_KEY": "key.pem"})


async def test_what_the_service_cannot_ask_with_is_refused_at_its_start(
    place: Place, tmp_path: Path
):
    with pytest.raises(ConfigurationError, match="--certificate"):
        Settings(client_ca=place.authority.file).check()
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for file in (empty, tmp_path / "nowhere.pem"):
        settings = Settings(
            port=0, certificate=place.own.file, private_key=place.own.key, client_ca=str(file)
        )
        app = Andon(f"sqlite:///{tmp_path}/tasks.db")
        with pytest.raises(ConfigurationError, match=f"client authorities in .*{file.name}"):
            await serve(Service(app, settings))


async def test_andon_serve_asks_for_certificates_and_andon_worker_shows_one(
    place: Place, tmp_path: Path
):
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    trust = {"SSL_CERT_FILE": place.authority.file}
    shown = {"ANDON_CLIENT_CERTIFICATE": place.client.file, "ANDON_CLIENT_KEY": place.client.key}
    asks = ["--certificate", place.own.file, "--private-key", place.own.key]
    asks += ["--client-ca", place.authority.file]
    service = Process(
        [*ANDON, "serve", str(HERE / "app.py"), "--port", str(port), *asks],
        tmp_path / "service.log",
        {**os.environ, "ANDON_URL": f"sqlite:///{tmp_path}/tasks.db"},
    )
    engine = engine_of(url, place.client, patience=60)
    worker = None
    try:
        await engine.open()
        worker = Process(
            [*ANDON, "worker", str(HERE / "app.py"), "--url", url],
            tmp_path / "worker.log",
            {**os.environ, **trust, **shown},
        )
        await engine.submit([Submission(id="a", name="add", args=b"[1, 2]")])
        ended = await engine.wait_end("a", timeout=60)
        assert ended.state.value == "completed", worker.log
        shown_by_code = (place.client.file, place.client.key or "")
        async with Andon(url, client_certificate=shown_by_code) as app:
            assert await (await app.submit("add", [3, 4])).result(timeout=60) == 7
        for bad in (place.own.file, None):
            with pytest.raises(AndonError):
                await asyncio.wait_for(Andon(url, client_certificate=bad).open(), 60)
    finally:
        await engine.close()
        if worker is not None:
            worker.close()
        service.close()
