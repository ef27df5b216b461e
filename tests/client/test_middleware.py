"""What is given as middleware, hook or state and can be none is refused where it is given."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from andon import Andon, Context
from andon.engine.base import Submission
from andon.model.errors import ConfigurationError, InvalidSubmission


class Stamps:
    def on_submit(self, submission: Submission) -> Submission:
        return submission


class Wraps:
    async def around(self, context: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        return await call()


class Both(Stamps, Wraps):
    def helper(self) -> None:
        """Whatever else it has is its own."""


class Misspelt:
    def on_sumbit(self, submission: Submission) -> Submission:
        return submission


class HalfMisspelt(Stamps):
    async def arround(self, context: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        return await call()


class Uncalled(Stamps):
    around = "around"


def test_middleware_with_some_of_the_hooks_is_taken():
    given = (Stamps(), Wraps(), Both())
    assert Andon("memory://", middleware=given).middleware == given


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "is no middleware: it has none of on_submit, around, instruments"),
        (object(), "is no middleware"),
        (lambda submission: submission, "is no middleware"),
        (Stamps, "is a class; give an instance of it: Stamps()"),
        (Misspelt(), "has 'on_sumbit', which nobody calls. Did you mean 'on_submit'?"),
        (HalfMisspelt(), "has 'arround', which nobody calls. Did you mean 'around'?"),
        (Uncalled(), "around cannot be called"),
    ],
)
def test_what_is_no_middleware_is_refused(given: Any, told: str):
    with pytest.raises(ConfigurationError) as refused:
        Andon("memory://", middleware=[Stamps(), given])
    assert told in str(refused.value)


@pytest.mark.parametrize("hook", [None, "connect", lambda app: app])
@pytest.mark.parametrize("where", ["on_worker_start", "on_worker_stop"])
def test_what_cannot_be_called_without_arguments_is_no_hook(hook: Any, where: str):
    app = Andon("memory://")
    with pytest.raises(ConfigurationError, match=where):
        getattr(app, where)(hook)


def test_a_lifespan_that_is_a_bare_generator_is_refused():
    async def lifespan() -> AsyncGenerator[None]:
        yield

    bare: Any = lifespan
    with pytest.raises(ConfigurationError, match=r"lifespan is a generator; decorate it"):
        Andon("memory://", lifespan=bare)
    text: Any = "lifespan"
    with pytest.raises(ConfigurationError, match="lifespan= takes a function"):
        Andon("memory://", lifespan=text)


@pytest.mark.parametrize(
    ("states", "told"),
    [
        (("complete",), "'complete' is not a terminal state. Did you mean 'completed'?"),
        (("pending",), "'pending' is not a terminal state. There are: cancelled, completed,"),
        ((None,), "discard_states"),
        (None, "discard_states"),
        ("completed", "discard_states"),
    ],
)
async def test_states_to_discard_that_are_none_are_refused(states: Any, told: str):
    async with Andon("memory://") as app:
        with pytest.raises(InvalidSubmission) as refused:
            await app.submit("job", discard_states=states)
        assert told in str(refused.value)
    with pytest.raises(ConfigurationError) as of_type:

        @app.task(name="job", discard_states=states)
        async def job() -> None:
            """Never registered."""

    assert told in str(of_type.value)
