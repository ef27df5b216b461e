"""The board mounted in applications of other frameworks: below a path of theirs, with links that
lead there, and whoever they say may look."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import django.conf
import httpx
import pytest
from django.core.asgi import get_asgi_application
from fastapi import FastAPI
from litestar import Litestar, asgi
from starlette.applications import Starlette
from starlette.routing import Mount

from andon import Andon
from andon.dashboard.access import Visitor
from andon.engine.base import Submission

from .dom import parsed
from .kit import make_app


def in_starlette(app: Andon) -> Any:
    return Starlette(routes=[Mount("/ops/board", app=app.board())])


def in_fastapi(app: Andon) -> Any:
    api = FastAPI()
    api.mount("/ops/board", app.board())
    return api


def in_litestar(app: Andon) -> Any:
    board = app.board(at="/ops/board")
    return Litestar(
        [asgi("/ops/board", is_mount=True, copy_scope=True)(board.__call__)],
        openapi_config=None,
        logging_config=None,  # it would set the level of every logger of the process
    )


def in_django(app: Andon) -> Any:
    if not django.conf.settings.configured:
        django.conf.settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="s", ROOT_URLCONF=())
    other, board = get_asgi_application(), app.board(at="/ops/board")

    async def both(scope: Any, receive: Any, send: Any) -> None:
        mine = scope["type"] == "http" and scope["path"].startswith("/ops/board")
        await (board if mine else other)(scope, receive, send)

    return both


def alone(app: Andon) -> Any:
    return app.board(at="/ops/board")


def client(application: Any, peer: str = "127.0.0.1", host: str = "localhost") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(application, client=(peer, 4711))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", follow_redirects=True)


@pytest.mark.parametrize("mounted", [in_starlette, in_fastapi, in_litestar, in_django, alone])
async def test_it_works_below_a_path(mounted: Callable[[Andon], Any]):
    app = make_app("memory://")
    async with app:
        engine = await app.connections.engine()
        await engine.submit([Submission(id="t1", name="shop.remind", queue="mail")])
        async with client(mounted(app)) as http:
            page = parsed((await http.get("/ops/board/")).text)
            links = [one["href"] for one in page.every("a") if one["href"] != "#main"]
            assert links
            assert all(link.startswith("/ops/board/") for link in links)
            for asset in [*page.every("link"), *page.every("script")]:
                answer = await http.get(asset.attributes.get("href") or asset["src"])
                assert answer.status_code == 200
            task = parsed((await http.get("/ops/board/tasks/t1")).text)
            assert task.one("h1").text == "shop.remind t1"
            form = page.one("form", id="act")
            hidden = {one["name"]: one["value"] for one in form.every("input", type="hidden")}
            answer = await http.post(
                "/ops/board/acts/pause",
                data={**hidden, "queue": "mail"},
                headers={"origin": "http://localhost"},
            )
            assert "Queue mail paused" in answer.text
            assert str(answer.url) == "http://localhost/ops/board/"
            [config] = await engine.queues()
            assert config.paused


async def test_without_anybody_named_it_is_for_this_machine_only():
    app = make_app("memory://")
    async with app:
        board = app.board()
        async with client(board) as http:
            assert (await http.get("/")).status_code == 200
        async with client(board, peer="192.0.2.7") as http:
            answer = await http.get("/")
            assert answer.status_code == 403
            assert "app.board(who=" in answer.text
        async with client(board, host="evil.example") as http:
            assert (await http.get("/")).status_code == 403
            assert (await http.get("/live?topic=andon")).status_code == 403


async def test_the_application_says_who_may_look():
    async def who(headers: Mapping[str, str]) -> Visitor | None:
        await asyncio.sleep(0)
        if headers.get("x-user") != "ann":
            return None
        return Visitor(name="ann", scopes=("queues:read:*",))

    app = make_app("memory://")
    async with app, client(app.board(who=who), peer="192.0.2.7", host="shop.example") as http:
        assert (await http.get("/")).status_code == 403
        page = parsed((await http.get("/", headers={"x-user": "ann"})).text)
        assert page.one(class_="who").text == "ann"
        assert (await http.get("/tasks", headers={"x-user": "ann"})).status_code == 403


async def test_what_is_done_there_is_done_by_its_visitor():
    app = make_app("memory://")
    async with app:
        engine = await app.connections.engine()
        await engine.submit([Submission(id="t1", name="shop.remind", queue="mail", delay=60)])
        board = app.board(who=lambda _: Visitor(name="ann"))
        async with client(board) as http:
            page = parsed((await http.get("/tasks/t1")).text)
            form = page.one("form", id="act")
            hidden = {one["name"]: one["value"] for one in form.every("input", type="hidden")}
            await http.post(
                "/acts/task/cancel",
                data={**hidden, "task": "t1"},
                headers={"origin": "http://localhost"},
            )
        assert (await engine.history("t1")).events[-1].actor == "ann"


async def test_a_server_may_run_it_alone():
    app = make_app("memory://")
    said: list[str] = []

    async def send(message: Any) -> None:
        said.append(message["type"])

    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> Any:
        return next(messages)

    await app.board()({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
