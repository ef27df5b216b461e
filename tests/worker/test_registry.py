"""A task finds its handler by name and version, else by the longest prefix."""

import pytest

from andon.model.errors import ConfigurationError
from andon.worker.calls import Call
from andon.worker.registry import Registry, TaskType


def one() -> None: ...
def two() -> None: ...


def task_type(name, version=0, handler=one, **more):
    return TaskType(name=name, version=version, handler=handler, codec=Call(handler), **more)


def routed(registry, name, version=0):
    found = registry.route(name, version)
    return None if found is None else (found.name, found.version)


def test_versions_stand_side_by_side():
    registry = Registry()
    registry.add(task_type("send", 1))
    registry.add(task_type("send", 2, two))
    assert routed(registry, "send", 1) == ("send", 1)
    assert routed(registry, "send", 2) == ("send", 2)
    assert routed(registry, "send", 3) is None


def test_the_longest_prefix_wins_and_ends_with_a_part_of_the_name():
    registry = Registry()
    for name in ("email", "email:send", "img/*", "*"):
        registry.add(task_type(name))
    assert routed(registry, "email:send:now") == ("email:send", 0)
    assert routed(registry, "email:other") == ("email", 0)
    assert routed(registry, "emailer") == ("*", 0)
    assert routed(registry, "img/resize") == ("img/*", 0)
    assert routed(registry, "other") == ("*", 0)


def test_a_plain_prefix_serves_its_own_version_a_pattern_any():
    registry = Registry()
    registry.add(task_type("email", 1))
    registry.add(task_type("job.*", 1))
    registry.add(task_type("job.*", 4))
    assert routed(registry, "email:send", 2) is None
    assert routed(registry, "job.x", 1) == ("job.*", 1)
    assert routed(registry, "job.x", 2) == ("job.*", 4)


def test_a_route_found_before_is_forgotten_when_a_better_one_comes():
    registry = Registry()
    registry.add(task_type("*"))
    assert routed(registry, "a.b") == ("*", 0)
    registry.add(task_type("a.*"))
    assert routed(registry, "a.b") == ("a.*", 0)


def test_another_function_under_the_same_name_is_refused_the_same_is_fine():
    registry = Registry()
    first = registry.add(task_type("send"))
    assert registry.add(task_type("send")) is first
    with pytest.raises(ConfigurationError, match=r"registered already.*one.*two"):
        registry.add(task_type("send", handler=two))
    with pytest.raises(ConfigurationError, match="registered already"):
        registry.add(task_type("send", options={"max_retries": 9}))


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "not a name", "handler": one},
        {"name": "x", "handler": one, "options": {"max_retrys": 3}},
        {"name": "x", "handler": one, "max_concurrent": 0},
        {"name": "x", "handler": one, "argv": ("ls",)},
        {"name": "x"},
        {"name": "x", "kind": "command"},
    ],
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(ConfigurationError):
        TaskType(codec=Call(None), **settings)
