"""Which token speaks for which run."""

from msgspec.structs import replace

from andon.engine.http.runtokens import RunTokens
from andon.lifecycle.admission import admit
from andon.model.policy import Policy
from andon.model.task import Definition, Task


def _run(run: str, number: int = 0) -> Task:
    definition = Definition(id="t", name="n", queue="q", policy=Policy())
    task = admit(definition, 1, "w")
    runs = (replace(task.status.runs[0], id=run, number=number),)
    return replace(task, status=replace(task.status, run=run, runs=runs))


def test_a_run_keeps_its_token_for_a_while_after_its_end():
    tokens = RunTokens()
    tokens.keep(_run("first"), "token")
    tokens.ended("first")
    assert "first" not in tokens
    assert tokens.of(_run("first")) == "token"


def test_an_ended_run_never_speaks_with_the_token_of_another_of_its_number():
    """An id may be used again once its task was deleted; its runs count from 0 again."""
    tokens = RunTokens()
    tokens.keep(_run("first"), "old")
    tokens.ended("first")
    tokens.keep(_run("second"), "new")
    assert tokens.of(_run("second")) == "new"
    assert tokens.of(_run("first")) == "old"
    tokens.ended("second")
    assert tokens.of(_run("first")) is None
