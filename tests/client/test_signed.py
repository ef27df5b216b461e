"""An application with a signing key, and one that trusts it, on every store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import HTTP, selected_stores, stores_by_url
from msgspec.structs import replace
from servers import Servers
from servers.http import PLAIN, service_of

from andon import Andon
from andon.client.signing import Signing
from andon.engine.base import Submission
from andon.lifecycle.commands import Rerun
from andon.model.errors import ConfigurationError, SubmissionsRefused, TaskFailed
from andon.model.headers import SIGNATURE_HEADER
from andon.signing import SigningKey, TrustedKeys

KEY = SigningKey.generate()
TRUSTED = TrustedKeys([KEY.public])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        every = (*selected_stores(metafunc.config), *stores_by_url(metafunc.config))
        metafunc.parametrize("store_kind", dict.fromkeys(every))


@pytest.fixture
def url(store_kind: str, servers: Servers, tmp_path: Path) -> Iterator[str]:
    if store_kind == HTTP:
        with service_of(PLAIN, tmp_path) as service:
            yield service.url
    elif store_kind == "memory":
        yield "memory://"
    else:
        yield servers.fresh_url(store_kind, tmp_path)


def shop(url: str, **settings: Any) -> Andon:
    app = Andon(url, signing_key=KEY, max_retries=0, **settings)

    @app.task(name="add")
    async def add(a: int, b: str = "ß") -> str:
        return f"{a}{b}"

    return app


async def test_signed_tasks_run_and_others_are_refused(url: str):
    async with shop(url) as app, asyncio.timeout(100):
        add = app.functions["add", 0]
        many = await app.submit_many([add.draft(n, b="🚦") for n in range(30)])
        options: dict[str, Any] = {"key": "k", "group": "g", "scopes": ["s:1"], "tags": ["b", "a"]}
        rich = await add.options(headers={"é": "1", "a": "2"}, **options).submit(1)
        child = await add.options(depends_on=[rich, many[0]], load_dependencies=True).submit(2)
        [record] = await (await app.engine()).get([many[3].id])
        assert record is not None
        wrong = Submission(
            id="altered", name="add", args=b'{"a":9}', headers=record.definition.headers
        )
        engine = await app.engine()
        await engine.submit([wrong, replace(wrong, id="unsigned", headers={})])
        async with app.working(trusted_keys=TRUSTED):
            for n, handle in enumerate(many):
                assert await handle.result() == f"{n}🚦"
            assert await rich.result() == "1ß"
            assert await child.result() == "2ß"
            for task_id in ("altered", "unsigned"):
                with pytest.raises(TaskFailed, match="signature-refused"):
                    await app.handle(task_id).result()
            [again] = await engine.act([rich.id], Rerun())
            assert again.error is None
            assert await rich.result() == "1ß"


async def test_what_is_submitted_by_name_is_signed_for_the_queue_of_its_type(url: str):
    async with shop(url) as app, asyncio.timeout(100):

        @app.task(name="send", queue="mail")
        async def send(to: str) -> str:
            return to

        async with app.working(trusted_keys=TRUSTED):
            # A worker publishes its types before it claims.
            assert await (await send.submit("bob")).result() == "bob"
            if url == "memory://":  # nobody else sees it
                handle = await app.submit("send", {"to": "ann"})
            else:
                async with Andon(url, signing_key=KEY) as elsewhere:
                    handle = await elsewhere.submit("send", {"to": "ann"})
            assert await app.handle(handle.id).result() == "ann"
            assert (await app.handle(handle.id).get()).queue == "mail"


async def test_a_repeat_is_the_same_task_whoever_signs_it() -> None:
    async with shop("memory://") as app:
        add = app.functions["add", 0]
        first = await add.options(id="one").submit(1)
        app.signing = Signing(SigningKey.generate())
        second = await add.options(id="one").submit(1)
        assert (first.created, second.created) == (True, False)
        [record] = await (await app.engine()).get(["one"])
        assert record is not None
        assert record.definition.headers[SIGNATURE_HEADER].startswith(f"v1.{KEY.key_id}.")


async def test_what_middleware_makes_of_a_submission_is_what_is_signed() -> None:
    class Tenant:
        def on_submit(self, submission: Submission) -> Submission:
            return replace(submission, headers={**submission.headers, "tenant": "acme"})

    async with shop("memory://", middleware=[Tenant()]) as app:
        handle = await app.functions["add", 0].submit(1)
        async with app.working(trusted_keys=TRUSTED):
            assert await handle.result() == "1ß"


async def test_one_submission_that_cannot_be_signed_fails_alone() -> None:
    async with shop("memory://") as app:
        good, bad = app.draft("add", {"a": 1}), app.draft("add", {"a": 1}, tags=["\ud800"])
        with pytest.raises(SubmissionsRefused) as refused:
            await app.submit_many([good, bad])
        assert (list(refused.value.errors), refused.value.accepted) == ([bad.id], (good.id,))


async def test_a_signature_that_was_made_elsewhere_is_kept() -> None:
    stranger = SigningKey.generate()
    async with shop("memory://") as app:
        header = stranger.sign(Submission(id="one", name="add", args=b'{"a":1}'), 0)
        handle = await app.submit("add", {"a": 1}, id="one", headers={SIGNATURE_HEADER: header})
        async with app.working(trusted_keys=TrustedKeys([stranger.public])):
            assert await handle.result() == "1ß"


def key_file(folder: Path) -> Path:
    path = folder / "key.pem"
    path.write_bytes(KEY.private_pem())
    path.chmod(0o600)
    (folder / "key.pem.pub").write_bytes(KEY.public_pem())
    return path


async def test_the_environment_names_the_keys_where_the_code_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = key_file(tmp_path)
    monkeypatch.setenv("ANDON_SIGNING_KEY", str(path))
    monkeypatch.setenv("ANDON_TRUSTED_KEYS", f"{path}.pub")
    app = Andon("memory://")
    app.task(name="add")(lambda a: a)
    async with app:
        handle = await app.submit("add", [1])
        async with app.working() as worker:
            assert worker.config.trusted_keys is not None
            assert worker.config.trusted_keys.ids == (KEY.key_id,)
            assert await handle.result() == 1


async def test_a_variable_that_is_set_to_nothing_is_no_leave_to_run_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANDON_TRUSTED_KEYS", "")
    async with Andon("memory://") as app:
        with pytest.raises(ConfigurationError, match="every task would be refused"):
            await app.worker()


async def test_a_key_that_is_not_there_is_told_by_the_submit_and_by_nothing_before(
    tmp_path: Path,
) -> None:
    async with Andon("memory://", signing_key=tmp_path / "none.pem") as app:
        with pytest.raises(ConfigurationError, match=r"none\.pem cannot be read"):
            await app.submit("add", [1])


def test_the_sync_face_signs_too(tmp_path: Path) -> None:
    app = Andon(f"sqlite:///{tmp_path}/a.db", signing_key=key_file(tmp_path))
    with app.sync as face:
        task = face.get(face.submit("add", [1]).id)
    assert task is not None
    assert task.headers[SIGNATURE_HEADER].startswith("v1.")
