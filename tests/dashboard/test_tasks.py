"""Lists of tasks, one task, dead letters, and acts on many."""

import logging
from pathlib import Path
from typing import Any

import pytest
from service.kit import Running, eventually, serving

from andon import Andon, Context
from andon.engine.base import Submission
from andon.model.errors import StoreUnavailable

from .dom import Element
from .kit import Site, make_app


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    app = make_app(f"sqlite:///{tmp_path}/tasks.db", artifacts=f"file://{tmp_path}/kept")

    @app.task(name="shop.print", queue="print")
    async def printed(ctx: Context, pages: int) -> str:
        for page in range(pages):
            logging.getLogger("shop").warning("page %d printed", page)
        await ctx.artifact("paper.txt", b"<b>paper</b>", content_type="text/html")
        return "done"

    return app


def submit(service: Running, *submissions: Submission) -> None:
    service.call(service.service.engine.submit(submissions))


def charges(*orders: int) -> list[Submission]:
    return [
        Submission(id=f"c{order}", name="shop.charge", queue="billing", args=b"[%d]" % order)
        for order in orders
    ]


def ended(service: Running, *ids: str) -> None:
    """With a worker, until they have ended."""
    with service.working():
        for task_id in ids:
            service.call(service.service.engine.wait_end(task_id, 60))


def listed(page: Element) -> list[str]:
    rows = page.one(id="tasks")
    return [link.text for link in rows.every("a", class_="id")]


def test_filters_find_by_each_field(site: Site, service: Running):
    submit(
        service,
        Submission(id="a1", name="shop.remind", queue="mail", key="k", group="g", tags=("t",)),
        Submission(id="b1", name="shop.charge", queue="billing", delay=60),
    )
    for query in (
        "state=pending", "queue=mail", "name=shop.remind", "key=k", "group=g", "tag=t", "id=a",
        "state=pending&queue=mail&name=shop.remind&key=k&group=g&tag=t&order=oldest",
    ):  # fmt: skip
        assert listed(site.get(f"/tasks?{query}")) == ["a1"], query
    assert listed(site.get("/tasks?state=scheduled&order=due")) == ["b1"]
    assert sorted(listed(site.get("/tasks"))) == ["a1", "b1"]
    assert "No task is like that" in site.get("/tasks?name=nothing").text


def test_pages_follow_one_another_and_show_each_task_once(site: Site, service: Running):
    submit(
        service,
        *(Submission(id=f"t{i:03}", name="shop.remind", queue="mail") for i in range(120)),
    )
    seen: list[str] = []
    path = "/tasks?state=pending"
    while path:
        page = site.get(path)
        seen += listed(page)
        more = list(page.every("a", rel="next"))
        path = more[0]["href"] if more else ""
    assert len(seen) == 120
    assert len(set(seen)) == 120


def test_what_cannot_be_asked_for_is_said(site: Site):
    assert "no state" in site.get("/tasks?state=nonsense", 400).text
    assert "ordered by" in site.get("/tasks?order=nonsense", 400).text
    site.get("/tasks?state=pending&order=due", 400)
    site.get("/tasks/%00", 404)
    site.get("/tasks/no-such-task", 404)
    site.get("/tasks/no/such/page", 404)


def test_search_finds_ids_and_names_and_all_else(site: Site, service: Running):
    submit(
        service,
        Submission(id="order-17", name="shop.remind", queue="mail", key="ann", tags=("vip",)),
    )
    assert site.get("/search?q=order-17").one("h1").text == "shop.remind order-17"
    for text in ("order-", "shop.remind", "ann", "vip"):
        assert listed(site.get(f"/search?q={text}")) == ["order-17"], text
    nothing = site.get("/search?q=nobody")
    assert "No task has 'nobody' as its id" in nothing.one(id="sought").text


def test_search_finds_failures_of_a_name_that_the_newest_tasks_have_not(
    site: Site, service: Running, monkeypatch: pytest.MonkeyPatch
):
    submit(service, *charges(-1))
    ended(service, "c-1")
    some = [Submission(id=f"m{n}", name="shop.remind", queue="mail", delay=60) for n in range(9)]
    submit(service, *some)
    monkeypatch.setattr("andon.stores.sqlite.reading.SCAN_BUDGET", 5)
    assert listed(site.get("/search?q=shop.charge")) == ["c-1"]
    assert site.last is not None
    assert "state=failed" in str(site.last.url)
    monkeypatch.undo()
    site.get("/search?q=shop.charge")
    assert "state" not in str(site.last.url)


def test_a_task_says_how_it_failed(site: Site, service: Running):
    submit(service, *charges(-4711))
    ended(service, "c-4711")
    page = site.get("/tasks/c-4711")
    assert "✗ failed" in page.one(id="task-head").text
    assert "Order 4711 not found" in page.one(id="task-error").text
    traceback = page.one(id="traceback").raw
    assert "in charge" in traceback
    assert "of Andon's own" in traceback
    assert "#0 submitted → error" in page.one(id="task-runs").text
    moves = page.one(id="moves").text
    assert "submit" in moves
    assert "claim" in moves
    assert "fail" in moves


def test_moves_are_shown_in_every_dialect(site: Site, service: Running):
    submit(service, *charges(1))
    ended(service, "c1")
    names = {}
    for profile in ("native", "jobbers", "asynq", "cbintel", "choria", "taskcluster"):
        page = site.get(f"/tasks/c1?as={profile}")
        current = [a.text for a in page.one(id="task-moves").every("a", aria_current="true")]
        assert current == [profile]
        names[profile] = page.one(id="moves").text
    assert len(set(names.values())) == 6
    site.get("/tasks/c1?as=nonsense", 400)


def test_secrets_in_arguments_are_hidden(site: Site, service: Running):
    args = b'{"order": 1, "card_token": "tok-4242", "user": {"password": "hunter2", "name": "ann"}}'
    submit(service, Submission(id="s", name="shop.charge", queue="billing", args=args))
    page = site.get("/tasks/s")
    text = page.one(id="arguments").raw
    assert "ann" in text
    assert "tok-4242" not in page.text
    assert "hunter2" not in page.text
    assert "2 values hidden" in page.text


def test_logs_and_artifacts_of_runs_are_there(site: Site, service: Running):
    submit(service, Submission(id="p", name="shop.print", queue="print", args=b"[3]"))
    ended(service, "p")
    eventually(lambda: "page 2 printed" in site.get("/tasks/p").one(id="log").text)
    page = site.get("/tasks/p")
    link = page.one(id="artifacts").one("a")
    answer = site.http.get(link["href"])
    assert answer.content == b"<b>paper</b>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert site.http.get("/tasks/p/artifacts/0/nothing").status_code == 404


def test_edges_are_shown_both_ways(site: Site, service: Running):
    submit(
        service,
        Submission(id="parent", name="shop.remind", queue="mail"),
        Submission(id="child", name="shop.remind", queue="mail", dependencies=("parent",)),
    )
    assert "parent" in site.get("/tasks/child").one(id="depends-on").text
    assert "child" in site.get("/tasks/parent").one(id="needed-by").text


@pytest.mark.parametrize(
    ("act", "delay", "state"),
    [("cancel", 60, "cancelled"), ("run-now", 60, "pending"), ("archive", None, "failed")],
)
def test_an_act_on_one_task_is_done(
    site: Site, service: Running, act: str, delay: float | None, state: str
):
    submit(service, Submission(id="t", name="shop.remind", queue="mail", delay=delay))
    page = site.post(f"/acts/task/{act}", {"task": "t", "back": "/tasks/t"}, at="/tasks/t")
    assert page.has(class_="said")
    [task] = service.call(service.service.engine.get(["t"]))
    assert task.state == state
    assert task.status.events[-1].actor == "anyone on this machine"


def test_dead_letters_of_one_cause_are_one_group_that_runs_again(site: Site, service: Running):
    submit(service, *charges(-1, -2, -3))
    other = Submission(id="x", name="shop.charge", queue="billing", args=b'{"no": "order"}')
    submit(service, other)
    ended(service, "c-1", "c-2", "c-3", "x")
    page = site.get("/dead-letters")
    rows = list(page.one(id="letters").one("tbody").every("tr"))
    assert len(rows) == 2
    assert "Order # not found in ledger" in rows[0].text
    [again] = [b for b in rows[0].every("button") if b.text == "Run again…"]
    question = site.post(again["formaction"], {"do": "retry"}, at="/dead-letters")
    assert question.one("h1").text == "Run again 3 tasks?"
    fields = fields_of(question)
    done = site.send("/bulk/do", {**fields, "do": "retry"})
    assert wait_for(site, done) == "Run again: ✓ done"
    states = [t.state for t in service.call(service.service.engine.get(["c-1", "c-2", "c-3", "x"]))]
    assert states == ["pending", "pending", "pending", "failed"]


def test_a_first_look_at_dead_letters_is_short_says_so_and_leads_to_more(
    site: Site, service: Running, monkeypatch: pytest.MonkeyPatch
):
    submit(service, *charges(-1, -2, -3, -4))
    other = Submission(id="x", name="shop.charge", queue="billing", args=b'{"no": "order"}')
    submit(service, other)
    ended(service, "c-1", "c-2", "c-3", "c-4", "x")
    monkeypatch.setattr("andon.dashboard.reading_letters.MAX_BATCH", 2)
    monkeypatch.setattr("andon.dashboard.reading_letters._MOMENT_S", 0.0)
    page = site.get("/dead-letters?queue=billing")
    assert "5 in all, of queue billing" in page.one(id="letters-looked").text
    assert "the newest 2, so there may be more" in page.one(id="letters-looked").text
    [on] = page.one(id="letters-looked").every("a")
    more = site.get(on["href"])
    assert more.one(id="letters-looked").text == "5 in all, of queue billing"
    counts = [row.every("td") for row in more.one(id="letters").one("tbody").every("tr")]
    assert [next(iter(cells)).text for cells in counts] == ["4", "1"]
    assert "letters" in page.one("body")["data-live"]  # a whole look comes soon
    assert "data-live" not in more.one("body").attributes


def test_of_very_many_causes_the_largest_are_shown(
    site: Site, service: Running, monkeypatch: pytest.MonkeyPatch
):
    submit(service, *charges(-1, -2))
    other = Submission(id="x", name="shop.charge", queue="billing", args=b'{"no": "order"}')
    submit(service, other)
    ended(service, "c-1", "c-2", "x")
    monkeypatch.setattr("andon.dashboard.views.letters.MOST_CAUSES", 1)
    page = site.get("/dead-letters")
    assert len(list(page.one(id="letters").one("tbody").every("tr"))) == 1
    assert "1 rarer cause left out" in page.one(id="letters-looked").text
    [on] = page.one(id="letters-looked").every("a")
    more = site.get(on["href"])
    assert len(list(more.one(id="letters").one("tbody").every("tr"))) == 2
    assert more.one(id="letters-looked").text == "3 in all"


def fields_of(page: Element) -> dict[str, Any]:
    """What the page's one form would send, without a button."""
    fields: dict[str, Any] = {}
    hidden = [*page.one("form", id="act").every("input"), *page.every("input", form="act")]
    for one in hidden:
        if one["type"] == "hidden":
            fields.setdefault(one["name"], []).append(one.attributes.get("value", ""))
    return fields


def wait_for(site: Site, page: Element) -> str:
    """What an act on many says at its end."""
    assert site.last is not None
    path = site.last.url.path

    def over() -> str:
        said = site.get(path).one(id="doing").one("h1").text
        return said if "done" in said or "ended" in said else ""

    return eventually(over)


def test_an_act_on_all_that_match_says_first_how_many(site: Site, service: Running):
    submit(
        service,
        *(Submission(id=f"a{i}", name="shop.remind", queue="mail") for i in range(250)),
        *(Submission(id=f"b{i}", name="shop.charge", queue="billing") for i in range(3)),
    )
    at = "/tasks?queue=mail&state=pending"
    question = site.post("/bulk/matching", {**fields_of(site.get(at)), "do": "cancel"}, at=at)
    assert question.one("h1").text == "Cancel 250 tasks?"
    assert "pending, queue mail" in question.text
    [queue] = [q for q in service.call(service.service.engine.stats()) if q.queue == "mail"]
    assert queue.counts["pending"] == 250
    done = site.send("/bulk/do", {**fields_of(question), "do": "cancel"})
    assert wait_for(site, done) == "Cancel: ✓ done"
    stats = {q.queue: q.counts for q in service.call(service.service.engine.stats())}
    assert stats["mail"]["cancelled"] == 250
    assert stats["billing"]["pending"] == 3


def test_a_name_is_counted_one_by_one(site: Site, service: Running):
    submit(service, *(Submission(id=f"a{i}", name="shop.remind", queue="mail") for i in range(450)))
    at = "/tasks?name=shop.remind"
    question = site.post("/bulk/matching", {**fields_of(site.get(at)), "do": "cancel"}, at=at)
    assert question.one("h1").text == "Cancel 450 tasks?"


def test_one_bad_task_among_those_chosen_fails_alone(site: Site, service: Running):
    submit(service, *(Submission(id=f"a{i}", name="shop.remind", queue="mail") for i in range(3)))
    service.call(service.service.engine.cancel(["a1"]))
    ids = ["a0", "a1", "gone", "a2"]
    question = site.post("/bulk/chosen", {"do": "archive", "chosen": ids}, at="/tasks")
    assert question.one("h1").text == "Archive 4 tasks?"
    done = site.send("/bulk/do", {**fields_of(question), "do": "archive"})
    assert wait_for(site, done) == "Archive: ✓ done"
    page = site.get(site.last.url.path).one(id="doing").text  # type: ignore[union-attr]
    assert "2 changed" in page
    assert "2 refused" in page
    states = [t.state for t in service.call(service.service.engine.get(["a0", "a1", "a2"]))]
    assert states == ["failed", "cancelled", "failed"]


def test_nothing_chosen_is_said(site: Site):
    page = site.post("/bulk/chosen", {"do": "cancel"}, at="/tasks")
    assert "Choose some tasks first" in page.text


def test_a_form_as_large_as_no_page_makes_it_is_refused(site: Site, service: Running):
    answer = site.http.post(
        "/acts/pause",
        content=b"a" * (2 * 1024 * 1024),
        headers={"content-type": "application/x-www-form-urlencoded", "origin": service.url},
    )
    assert answer.status_code == 413
    assert site.http.post("/acts/pause", json={}).status_code == 415


def test_a_store_that_does_not_answer_is_told_and_the_page_goes_on_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with serving(make_app(f"sqlite:///{tmp_path}/tasks.db")) as running:
        site = Site(running)

        async def away() -> None:
            raise StoreUnavailable("The store is away.")

        with monkeypatch.context() as patched:
            patched.setattr(running.service.engine, "stats", away)
            page = site.get("/", 503)
            assert "The store does not answer" in page.text
            assert page.one(id="refusal")["data-away"] == ""
            assert page.one("body")["data-live"] == "/live?topic=store"
        assert site.get("/").has(id="stations")
        site.close()


def test_a_list_that_was_cut_short_says_so_and_goes_on(
    site: Site, service: Running, monkeypatch: pytest.MonkeyPatch
):
    some = [Submission(id=f"m{n}", name="shop.remind", queue="mail") for n in range(2_500)]
    submit(service, Submission(id="old", name="shop.rare", queue="mail"))
    submit(service, *some)
    for look in ("FIRST_LOOK_S", "LOOK_S"):
        monkeypatch.setattr(f"andon.dashboard.reading_tasks.{look}", 0.0)
    page = site.get("/tasks?name=shop.rare")
    found = listed(page) if "old" in page.text else []
    while not found:
        assert "None was found so far" in page.one(id="tasks").text
        assert "not all have been" in page.one(id="pager").text
        page = site.get(page.one("a", rel="next")["href"])
        found = listed(page) if "old" in page.text else []
    assert found == ["old"]
