"""Options are checked where they are given, and a slip is answered with the nearest name."""

from datetime import UTC, datetime

import pytest

from andon import Andon, Backoff
from andon.model.errors import ConfigurationError, InvalidSubmission


@pytest.fixture
def send(app: Andon):
    @app.task(name="send")
    def send(to: str, copies: int = 1) -> None: ...

    return send


def test_a_misspelt_option_of_a_submission_names_the_nearest(send):
    with pytest.raises(TypeError, match=r"no option 'prioity'\. Did you mean 'priority'\?"):
        send.options(prioity=3)


def test_a_misspelt_option_of_a_task_type_names_the_nearest(app: Andon):
    with pytest.raises(TypeError, match=r"'max_retrys'\. Did you mean 'max_retries'"):
        app.task(max_retrys=3)(lambda: None)  # pyright: ignore[reportCallIssue]


def test_a_misspelt_default_of_the_application_names_the_nearest():
    with pytest.raises(TypeError, match=r"'time_out'\. Did you mean 'timeout'"):
        Andon("memory://", time_out=3)  # pyright: ignore[reportCallIssue]


def test_a_wrong_value_of_a_task_type_is_refused_where_it_is_written(app: Andon):
    with pytest.raises(ConfigurationError, match="max_retries must not be negative"):
        app.task(name="x", max_retries=-1)(lambda: None)


def test_priorities_have_names(send):
    assert send.options(priority="very-low").draft("a").submission.priority == -2


@pytest.mark.parametrize("priority", ["urgent", 1.5, None])
def test_a_priority_that_is_none_is_refused(send, priority):
    with pytest.raises(InvalidSubmission) as refused:
        send.options(priority=priority)
    assert refused.value.field == "priority"


def test_times_are_datetimes_or_milliseconds(send):
    moment = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    ms = round(moment.timestamp() * 1000)
    options = send.options(run_at=moment, deadline=ms + 1, expires_at=ms + 2)
    submission = options.draft("a").submission
    assert (submission.run_at, submission.deadline, submission.expires_at) == (ms, ms + 1, ms + 2)


@pytest.mark.parametrize("wrong", [datetime(2031, 1, 1), 300, 2.5e12, "tomorrow"])
def test_a_naive_or_too_small_time_is_refused(send, wrong):
    with pytest.raises(InvalidSubmission, match="deadline"):
        send.options(deadline=wrong)


def test_relative_times_stay_relative_so_that_a_repeat_is_the_same(send):
    one, other = (send.options(id="x", delay=5, deadline_in=60).draft("a") for _ in range(2))
    assert one.submission == other.submission
    assert (one.submission.delay, one.submission.run_at) == (5, None)


def test_one_way_of_giving_a_time_replaces_the_other(send):
    later = send.options(delay=5).options(run_at=datetime(2031, 1, 1, tzinfo=UTC))
    assert later.draft("a").submission.delay is None


def test_both_ways_of_giving_a_time_at_once_are_refused(send):
    with pytest.raises(InvalidSubmission, match="run_at or delay"):
        send.options(delay=5, run_at=datetime(2031, 1, 1, tzinfo=UTC))


def test_policy_options_travel_in_a_layer_of_their_own(send):
    submission = send.options(max_retries=7, queue="mail", timeout=3.0).draft("a").submission
    assert submission.options == {"max_retries": 7, "timeout": 3.0}
    assert submission.queue == "mail"


def test_exception_types_are_refused_for_one_submission(send):
    with pytest.raises(InvalidSubmission, match="known to the worker only"):
        send.options(retry_on=(ConnectionError,))


def test_dependencies_are_handles_drafts_or_ids(send):
    parent = send.draft("a")
    for given in (parent, [parent], parent.id, [parent.id]):
        assert send.options(depends_on=given).draft("b").submission.dependencies == (parent.id,)


def test_one_string_is_not_several_tags(send):
    with pytest.raises(InvalidSubmission, match=r"\['urgent'\]"):
        send.options(tags="urgent")


def test_expected_errors_are_taken_apart_into_types_and_codes(app: Andon):
    def wait(retry: int, error: BaseException | None) -> float:
        return retry * 2.0

    @app.task(
        name="fetch",
        retry_on=(ConnectionError, "NETWORK_ERROR"),
        no_retry_on=PermissionError,
        backoff=wait,
        max_concurrent=2,
    )
    def fetch() -> None: ...

    assert fetch.type.retry_on_types == (ConnectionError,)
    assert fetch.type.no_retry_on_types == (PermissionError,)
    assert fetch.type.backoff is wait
    assert fetch.type.max_concurrent == 2
    assert fetch.type.options.get("retry_on") == ("NETWORK_ERROR",)
    assert fetch.type.options.get("backoff") is Backoff.CUSTOM


def test_defaults_of_the_application_are_weaker_than_those_of_the_type():
    app = Andon("memory://", max_retries=1, timeout=9.0, queue="jobs")

    @app.task(name="a", max_retries=2)
    def a() -> None: ...

    assert a.type.options == {"max_retries": 2, "timeout": 9.0}
    assert a.type.queue == "jobs"


def test_a_derived_key_is_the_same_for_the_same_arguments_in_any_order(send):
    unique = send.options(unique=True)
    keys = {
        unique.draft(to="a", copies=2).submission.unique_key,
        unique.draft(copies=2, to="a").submission.unique_key,
        unique.draft("a", 2).submission.unique_key,
    }
    assert len(keys) == 1
    assert unique.draft("b", 2).submission.unique_key not in keys


def test_a_given_unique_key_wins_over_a_derived_one(send):
    assert send.options(unique=True, unique_key="k").draft("a").submission.unique_key == "k"


def test_arguments_that_do_not_fit_are_refused_by_name(send):
    with pytest.raises(InvalidSubmission) as refused:
        send.draft("a", copies="many")
    assert refused.value.field == "copies"
