"""The first page: what it counts, what it says is wrong, and the cords."""

from service.kit import Running, eventually

from .kit import Site


def submit(service: Running, name: str, *rows: tuple, queue: str, **more) -> None:
    from andon.engine.base import Submission

    service.call(
        service.service.engine.submit(
            [Submission(id=one, name=name, queue=queue, args=args, **more) for one, args in rows]
        )
    )


def test_an_empty_board_says_how_tasks_come(site: Site):
    page = site.get("/")
    assert "There is no queue yet" in page.one(id="queues").text
    assert page.one("h1").text == "The andon"


def test_stations_count_what_the_store_counts(site: Site, service: Running):
    submit(service, "shop.remind", ("a", b'["x"]'), ("b", b'["y"]'), queue="mail")
    submit(service, "shop.remind", ("c", b'["z"]'), queue="mail", delay=3600)
    line = site.get("/").one(id="stations").text
    assert "pending 2" in line
    assert "scheduled 1" in line
    assert "active 0" in line


def test_tasks_that_nobody_can_run_are_named(site: Site, service: Running):
    submit(service, "shop.remind", ("a", b'["x"]'), queue="mail")
    looks = site.get("/").one(id="summary").text
    assert "shop.remind: no worker asks queue mail" in looks


def test_the_cord_pauses_a_queue_and_lets_it_go_on(site: Site, service: Running):
    submit(service, "shop.remind", ("a", b'["x"]'), queue="mail")
    page = site.post("/acts/pause", {"queue": "mail"})
    assert "Queue mail paused" in page.one(class_="said").text
    [config] = service.call(service.service.engine.queues())
    assert config.paused
    assert "mail is paused" in page.one(id="summary").text
    page = site.post("/acts/resume", {"queue": "mail"})
    assert "goes on" in page.one(class_="said").text
    [config] = service.call(service.service.engine.queues())
    assert not config.paused


def test_what_became_of_an_act_is_said_once(site: Site, service: Running):
    submit(service, "shop.remind", ("a", b'["x"]'), queue="mail")
    assert site.post("/acts/pause", {"queue": "mail"}).has(class_="said")
    assert not site.get("/").has(class_="said")


def test_a_queue_that_is_not_there_cannot_be_paused(site: Site):
    page = site.post("/acts/pause", {"queue": "nowhere"}, 404)
    assert "no such queue" in page.one(id="refusal").text


def test_rates_are_those_of_the_counters(site: Site, service: Running):
    submit(service, "shop.remind", ("a", b'["x"]'), queue="mail")
    site.get("/")
    sampler = service.service.board._reader.sampler  # type: ignore[union-attr]
    submit(service, "shop.remind", *((f"t{i}", b'["x"]') for i in range(500)), queue="mail")

    def counted() -> bool:
        site.get("/")
        return sampler.rates(["mail"]).submitted > 1

    assert eventually(counted)
