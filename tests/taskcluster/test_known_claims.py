"""Reports that are decided on the record as this process claimed it: told from the store all the
same, whatever other processes have done to the task since."""

from collections.abc import Iterator

import pytest
from tests.service.kit import serving

from andon import Andon
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import WORKER, own_queue, refused
from .signer import Signer
from .test_access import Request, Service, run_signer

PATH = "/task/{}/runs/0/{}"


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service]]:
    """Two services on one store; runs that are reclaimed at the second have longer."""
    url = f"sqlite:///{tmp_path_factory.mktemp('claims')}/tasks.db"
    settings = TaskclusterSettings(claim_wait=0.0)
    longer = TaskclusterSettings(claim_wait=0.0, claim_timeout=3_600.0)
    with serving(Andon(url)) as first:
        first.call(first.service.authentication.clients.create("first", []))
    with (
        serving(Andon(url), taskcluster=settings, require_token=True) as one,
        serving(Andon(url), taskcluster=longer, require_token=True) as two,
        one.client() as at_one,
        two.client() as at_two,
    ):
        here = Service(one, at_one)
        there = Service.__new__(Service)
        there.running, there.http, there.root = two, at_two, here.root
        yield here, there


@pytest.fixture
def here(services: tuple[Service, Service]) -> Service:
    return services[0]


@pytest.fixture
def there(services: tuple[Service, Service]) -> Service:
    return services[1]


def claim(here: Service, **fields: object) -> tuple[str, Signer]:
    """A task that is claimed here, and the credentials of its run."""
    queue = own_queue()
    task_id = here.create(taskQueueId=queue, **fields)
    [got] = here.good("POST", f"/claim-work/{queue}", WORKER)["tasks"]
    return task_id, run_signer(got)


def post(path: str, body: object = None) -> Request:
    return Request("POST", path, body, ())


def reads(service: Service) -> float:
    """How often the store was asked for tasks."""
    seconds = service.running.service.metrics.store.labels("get")
    [count] = [s.value for m in seconds.collect() for s in m.samples if s.name.endswith("_count")]
    return count


def told_of(service: Service, task_id: str) -> object:
    return service.good("GET", f"/task/{task_id}/status")


@pytest.mark.parametrize("how", ["completed", "failed"])
def test_who_reports_what_was_claimed_here_costs_no_read(here: Service, how: str):
    task_id, run = claim(here)
    before = reads(here)
    answer = here.ask(run, post(PATH.format(task_id, how)))
    assert answer.status_code == 200, answer.text
    assert reads(here) == before
    assert answer.json() == told_of(here, task_id)
    again = here.ask(run, post(PATH.format(task_id, how)))
    assert again.json() == answer.json(), "a repeat is answered from the store"


@pytest.mark.parametrize("reason", ["worker-shutdown", "intermittent-task", "internal-error"])
def test_an_exception_is_answered_as_the_record_is_then(here: Service, reason: str):
    task_id, run = claim(here)
    answer = here.ask(run, post(PATH.format(task_id, "exception"), {"reason": reason}))
    assert answer.json() == told_of(here, task_id)


def test_a_run_that_was_cancelled_elsewhere_is_refused(here: Service, there: Service):
    task_id, run = claim(here)
    there.good("POST", f"/task/{task_id}/cancel")
    answer = here.ask(run, post(PATH.format(task_id, "completed")))
    refused(answer, 409, "RequestConflict", "reportCompleted")
    assert told_of(here, task_id) == told_of(there, task_id)


def test_a_task_that_moved_elsewhere_is_reported_as_it_is(here: Service, there: Service):
    task_id, run = claim(here)
    there.good("POST", f"/task/{task_id}/priority", {"newPriority": "high"})
    answer = here.ask(run, post(PATH.format(task_id, "completed")))
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"]["priority"] == "high"
    assert answer.json() == told_of(there, task_id)


def test_what_was_reclaimed_elsewhere_is_told_with_its_new_end(here: Service, there: Service):
    task_id, _ = claim(here)
    reclaimed = there.good("POST", PATH.format(task_id, "reclaim"))
    answer = here.ask(run_signer(reclaimed), post(PATH.format(task_id, "completed")))
    assert answer.json() == told_of(there, task_id)
    assert answer.json()["status"]["runs"][0]["takenUntil"] == reclaimed["takenUntil"]


def test_a_reclaim_here_is_known_here(here: Service):
    task_id, _ = claim(here)
    run = run_signer(here.good("POST", PATH.format(task_id, "reclaim")))
    before = reads(here)
    answer = here.ask(run, post(PATH.format(task_id, "completed")))
    assert reads(here) == before
    assert answer.json() == told_of(here, task_id)
