"""A submission may name the profile it lives under, whatever that of the application is."""

from andon.lifecycle.commands import Fail
from andon.lifecycle.profiles import TASKCLUSTER
from andon.model.errors import ConfigurationError, InvalidSubmission, PayloadTooLarge
from andon.model.task import TaskError
from andon.model.words import State

from .conftest import START, Shop

HOUR = 3_600_000
LARGE = b'"' + b"x" * 400_000 + b'"'


async def test_its_defaults_are_those_of_the_profile_it_names(shop: Shop) -> None:
    outcome = await shop.try_submit("bare", profile="taskcluster")
    assert isinstance(outcome.error, InvalidSubmission)
    assert outcome.error.field == "deadline"

    await shop.submit("task", profile="taskcluster", deadline=START + HOUR)
    await shop.submit("plain")
    task, plain = await shop.task("task"), await shop.task("plain")
    assert (task.definition.profile, plain.definition.profile) == ("taskcluster", "native")
    assert task.policy.lease == TASKCLUSTER.defaults["lease"]
    assert plain.policy.lease != task.policy.lease


async def test_its_run_ends_by_the_rules_of_that_profile(shop: Shop) -> None:
    await shop.submit("task", profile="taskcluster", deadline=START + HOUR)
    failed = await shop.run(Fail(error=TaskError(message="as asked")))
    assert (await shop.task(failed.id)).state is State.FAILED


async def test_its_arguments_may_be_as_large_as_that_profile_takes(shop: Shop) -> None:
    outcome = await shop.try_submit("plain", args=LARGE)
    assert isinstance(outcome.error, PayloadTooLarge)
    await shop.submit("task", profile="taskcluster", deadline=START + HOUR, args=LARGE)
    assert (await shop.task("task")).definition.args == LARGE

    most = TASKCLUSTER.max_args
    outcome = await shop.try_submit(
        "huge", profile="taskcluster", deadline=START + HOUR, args=b"1" * (most + 1)
    )
    assert isinstance(outcome.error, PayloadTooLarge)
    assert f"{most:,}" in str(outcome.error) or str(most) in str(outcome.error)


async def test_a_profile_that_there_is_not_is_refused_alone(shop: Shop) -> None:
    bad = shop.submission("bad", profile="tascluster")
    good = shop.submission("good")
    refused, taken = await shop.engine.submit([bad, good])
    assert isinstance(refused.error, ConfigurationError)
    assert taken.error is None
    assert await shop.state("bad") is None
