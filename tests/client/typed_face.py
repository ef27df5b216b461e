# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What a type checker must see of the client. Nothing here runs: `make types` reads it.

Every `ignore` marks an error that must be found; if it is not, the comment itself is the error.
"""

from typing import Any, assert_type

from andon import Andon, Context, FlowHandle, State, Submitted, TaskHandle
from andon.client.flow_steps import Step
from andon.client.sync import SyncFlowHandle, SyncHandle

app = Andon("memory://", max_retries=5, retry_on=(ConnectionError, "NETWORK_ERROR"))


@app.task
async def fetch(url: str, *, depth: int = 1) -> bytes:
    return url.encode() * depth


@app.task(name="resize", queue="images", isolation="process", max_concurrent=2, timeout=30)
def resize(path: str, width: int) -> list[int]:
    return [width]


@app.task
async def report(ctx: Context, day: str) -> None:
    ctx.progress(100, day)


@app.task(unique=True)
def tidy(ctx: Context) -> int:
    return ctx.run


async def submitting_is_checked_like_a_call() -> None:
    handle = await fetch.submit("https://example.org", depth=2)
    assert_type(handle, TaskHandle[bytes])
    assert_type(await handle.result(timeout=5), bytes)
    assert_type(await handle.status(), State)
    await fetch.submit()  # pyright: ignore[reportCallIssue]
    await fetch.submit(1)  # pyright: ignore[reportArgumentType]
    await fetch.submit("x", deep=2)  # pyright: ignore[reportCallIssue]
    assert_type(await resize.submit("a.png", 3), TaskHandle[list[int]])
    assert_type(await resize.submit_in(60, "a.png", 3), TaskHandle[list[int]])
    await resize.submit_in(60, "a.png", "3")  # pyright: ignore[reportArgumentType]
    await resize.submit_at("soon", "a.png", 3)  # pyright: ignore[reportArgumentType]


async def a_leading_context_is_not_submitted() -> None:
    assert_type(await report.submit("2030-01-01"), TaskHandle[None])
    assert_type(await tidy.submit(), TaskHandle[int])
    await tidy.submit(1)  # pyright: ignore[reportCallIssue]


async def options_are_checked_by_name_and_type() -> None:
    urgent = fetch.options(priority="high", deadline_in=60, tags=["a"], depends_on="x")
    assert_type(await urgent.submit("x"), TaskHandle[bytes])
    await urgent.submit(1)  # pyright: ignore[reportArgumentType]
    fetch.options(prioity=1)  # pyright: ignore[reportCallIssue]
    fetch.options(delay="soon")  # pyright: ignore[reportArgumentType]
    app.task(max_retrys=1)  # pyright: ignore[reportCallIssue]
    Andon(time_out=1)  # pyright: ignore[reportCallIssue]


async def many_are_drafts() -> None:
    handles = await fetch.submit_many(fetch.draft(url) for url in ("a", "b"))
    assert_type(handles, list[TaskHandle[bytes]])
    fetch.draft(3)  # pyright: ignore[reportArgumentType]
    await fetch.submit_many([tidy.draft()])  # pyright: ignore[reportArgumentType]
    mixed = await app.submit_many([fetch.draft("a"), tidy.draft()])
    assert_type(await mixed[0].result(), bytes | int)
    async for some in app.submit_stream(fetch.draft(url) for url in ("a", "b")):
        assert_type(some, list[Submitted])
    for some in app.sync.submit_stream([fetch.draft("a"), tidy.draft()]):
        assert_type(some, list[Submitted])
    assert_type(await app.submit("by-name", {"x": 1}), TaskHandle[Any])
    assert_type(app.handle("id", resize), TaskHandle[list[int]])


@app.task
def merge(pages: list[bytes], day: str) -> int:
    return len(pages)


async def results_are_passed_on_by_their_types() -> None:
    with app.flow("typed") as flow:
        page = flow.add(fetch, "https://example.org")
        assert_type(page.result, bytes)
        pages = flow.map(fetch, ["a", "b"])
        merged = flow.add(merge, pages.results, day="monday")
        assert_type(merged.result, int)
        flow.add(resize, "a.png", merged.result)
        assert_type(flow.chord(pages, merged), Step[int])
        assert_type(flow.chain(page, pages, merged).result, int)
        flow.add(resize, "a.png", page.result)  # pyright: ignore[reportArgumentType]
        flow.add(merge, page.result, day="monday")  # pyright: ignore[reportArgumentType]
        flow.add(merge, pages.results)  # pyright: ignore[reportCallIssue]
        flow.map(fetch, [1, 2])  # pyright: ignore[reportArgumentType]
    assert_type(await flow.submit(), FlowHandle)
    assert_type(app.sync.flow("typed").submit(), SyncFlowHandle)


async def a_plain_call_is_the_function() -> None:
    assert_type(await fetch("x"), bytes)
    assert_type(resize("x", 1), list[int])
    resize("x")  # pyright: ignore[reportCallIssue]


def the_sync_face_has_the_same_types() -> None:
    handle = fetch.sync.submit("x", depth=2)
    assert_type(handle, SyncHandle[bytes])
    assert_type(handle.result(timeout=5), bytes)
    assert_type(handle.cancel(force=True), State | None)
    fetch.sync.submit(1)  # pyright: ignore[reportArgumentType]
    assert_type(resize.sync.submit_in(5, "a", 1).result(), list[int])
    assert_type(app.sync.submit("name"), SyncHandle[Any])
    for view in handle.watch():
        assert_type(view.state, State)


@app.task
def whatever(payload: Any, *, dry: bool = False) -> int:
    return 1


@app.task
async def nothing() -> None: ...


async def a_first_parameter_of_any_type_is_not_taken_for_the_context() -> None:
    assert_type(await whatever.submit(payload=1), TaskHandle[int])
    await whatever.submit({"x": 1}, dry=True)
    assert_type(await nothing.submit(), TaskHandle[None])
    await nothing.submit(1)  # pyright: ignore[reportCallIssue]
