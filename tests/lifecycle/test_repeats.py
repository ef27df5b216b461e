"""Fingerprints of reports: the same for what is the same, another for anything else."""

import pytest

from andon.lifecycle import commands as c
from andon.lifecycle.repeats import fingerprint, repeats_the_last, tombstone_of
from andon.model.task import Run, Status, TaskError, Tombstone
from andon.model.words import Reason, State

ERROR = TaskError(message="x", code="X")

REPORTS: list[c.Command] = [
    c.Complete(),
    c.Complete(result=b""),
    c.Complete(result=b"null"),
    c.Complete(result=b"1"),
    c.Fail(error=ERROR),
    c.Fail(error=ERROR, reason=Reason.TIMEOUT),
    c.Fail(error=TaskError(message="x", code="Y")),
    c.Fail(error=TaskError(message="xX", code="")),
    c.Fail(error=TaskError(message="x", code="X", traceback="t")),
    c.Terminate(error=ERROR),
    c.Reject(error=ERROR),
    c.Reject(error=ERROR, reason=Reason.RESULT_INVALID),
    c.UnknownTask(),
    c.Snooze(delay=1),
    c.Release(),
    c.Stop(),
    c.ShutdownRetry(),
    c.Interrupted(),
    c.Interrupted(reason=Reason.HANDLER_KILLED),
    c.Expire(),
]


def test_no_two_reports_have_the_same() -> None:
    assert len({fingerprint(command) for command in REPORTS}) == len(REPORTS)
    assert "" not in {fingerprint(command) for command in REPORTS}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (c.Fail(error=ERROR, delay=1), c.Fail(error=ERROR, delay=2)),
        (c.Fail(error=ERROR, retryable=True), c.Fail(error=ERROR, retryable=False)),
        (c.Snooze(delay=1), c.Snooze(delay=2)),
    ],
)
def test_what_follows_from_a_report_is_no_part_of_it(one: c.Command, other: c.Command) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize("command", [c.Lose(), c.Silence(), c.Cancel(force=True), c.Delete()])
def test_what_no_worker_reports_has_none(command: c.Command) -> None:
    assert fingerprint(command) == ""


def test_a_tombstone_tells_the_last_run() -> None:
    report = fingerprint(c.Complete())
    runs = (Run(0, Reason.SUBMITTED, 0, id="r0", report="x"), Run(1, Reason.RETRY, 0, id="r1"))
    status = Status(state=State.COMPLETED, created_at=0, runs=runs)
    assert tombstone_of(status) == Tombstone(State.COMPLETED, "r1", "")
    assert tombstone_of(Status(state=State.CANCELLED, created_at=0)) == Tombstone(State.CANCELLED)
    left = Tombstone(State.COMPLETED, "r1", report)
    assert repeats_the_last(left, "r1", c.Complete())
    assert not repeats_the_last(left, "r0", c.Complete())
    assert not repeats_the_last(left, "r1", c.Complete(result=b"1"))
    assert not repeats_the_last(Tombstone(State.COMPLETED, "r1"), "r1", c.Lose())
    assert not repeats_the_last(Tombstone(State.COMPLETED), "", c.Lose())
    assert not repeats_the_last(None, "r1", c.Complete())
