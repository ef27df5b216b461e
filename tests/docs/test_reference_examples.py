"""The examples of the reference run, each as its page says: in the shop, or by itself."""

import ast
import asyncio
import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts.reference import PAGES, SETTING, Reference, example_of
from tests.service.kit import serving

from andon.testing import run_virtual, running

BY_ITSELF = ("Andon(", "running(", "run_virtual(", "virtual_time")
"""An example with one of these runs what it shows by itself, without the shop's worker."""


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference()


def examples(reference: Reference, name: str) -> Iterator[tuple[str, str]]:
    """The examples of a name and of its members: path and code."""
    docstring = reference.find(name).docstring
    told = [(name, "" if docstring is None else example_of(docstring.value))]
    told += [(f"{name}.{member.name}", member.example) for member in reference.members(name)]
    return ((path, code) for path, code in told if code)


class Example:
    """An example as code: it may await without a function around it."""

    def __init__(self, path: str, code: str, names: dict[str, Any]) -> None:
        self._names = {**names, "__name__": "shop"}
        self._code = compile(code, f"<example of {path}>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        self.awaits = bool(self._code.co_flags & inspect.CO_COROUTINE)

    def run(self) -> None:
        eval(self._code, self._names)

    async def played(self) -> None:
        outcome = eval(self._code, self._names)
        if self.awaits:
            await outcome


@pytest.mark.parametrize("name", [name for page in PAGES for name in page.names])
def test_the_examples_run(
    name: str,
    reference: Reference,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, code in examples(reference, name):
        monkeypatch.delenv("ANDON_URL", raising=False)
        shop = runpy.run_path(str(SETTING))
        if "JobsClient(" in code:
            shop["app"].live_at("sqlite:///andon.db")  # for a service and a worker beside it
            with serving(shop["app"]) as service, service.working():
                monkeypatch.setenv("ANDON_URL", service.url)
                asyncio.run(Example(path, code, shop).played())
        elif any(word in code for word in BY_ITSELF):
            example = Example(path, code, shop)
            asyncio.run(example.played()) if example.awaits else example.run()
        else:
            run_virtual(in_the_shop(path, code, shop))


async def in_the_shop(path: str, code: str, shop: dict[str, Any]) -> None:
    async with running(shop["app"]):
        example = Example(path, code, shop)
        if example.awaits:
            await example.played()
        else:
            await asyncio.to_thread(example.run)  # where no loop runs
