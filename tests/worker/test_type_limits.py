"""Room per type, and the children that all types in child processes have in common."""

import os

import pytest

from andon.model.errors import ConfigurationError
from andon.worker.calls import Call
from andon.worker.config import WorkerConfig, processors
from andon.worker.registry import TaskType
from andon.worker.type_limits import TypeLimits


def handler() -> None:
    """Never called."""


def kind(name: str, kind: str = "process", **settings: int) -> TaskType:
    return TaskType(name=name, codec=Call(handler), handler=handler, kind=kind, **settings)  # type: ignore[arg-type]


def test_types_in_children_share_them_and_others_are_unlimited():
    resize, render, mail = kind("resize"), kind("render"), kind("mail", "async")
    limits = TypeLimits([resize, render, mail], children=2)
    assert limits.room() == {"resize": 2, "render": 2}
    assert limits.take(resize, "resize")
    assert limits.room() == {"resize": 1, "render": 1}
    assert limits.take(render, "render")
    assert not limits.take(render, "render")
    assert limits.take(mail, "mail")
    assert limits.room() == {"resize": 0, "render": 0}
    assert limits.give(resize), "there was no room before"
    assert not limits.give(render)
    assert limits.room() == {"resize": 2, "render": 2}


def test_a_type_has_its_own_limit_besides():
    resize, render = kind("resize", max_concurrent=1), kind("render")
    limits = TypeLimits([resize, render], children=3)
    assert limits.take(resize, "resize")
    assert not limits.take(resize, "resize")
    assert limits.room() == {"resize": 0, "render": 2}
    assert limits.give(resize)


def test_a_version_that_runs_elsewhere_needs_no_child():
    old, new = kind("resize"), kind("resize", "thread", version=2)
    limits = TypeLimits([old, new], children=1)
    assert limits.take(old, "resize")
    assert limits.take(new, "resize")
    assert not limits.take(old, "resize")
    assert not limits.give(new)
    assert limits.give(old)


def test_types_registered_later_share_the_children():
    limits = TypeLimits([], children=1)
    assert limits.room() == {}
    late = kind("late")
    limits.take_in([late])
    assert limits.take(late, "late")
    assert limits.room() == {"late": 0}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="asks what Linux allows")
def test_by_default_there_are_as_many_children_as_processors_allowed():
    assert WorkerConfig().children == processors() == len(os.sched_getaffinity(0))


def test_a_worker_without_children_is_refused():
    with pytest.raises(ConfigurationError, match="children must be 1 or more"):
        WorkerConfig(children=0)
