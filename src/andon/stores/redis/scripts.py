"""The Lua scripts, one per operation, each loaded from its own file when it is first used."""

import hashlib
import re
from importlib.resources import files

_FOLDER = files("andon.stores.redis") / "lua"


class Script:
    """One script: its whole text, and the digest under which the server keeps it."""

    __slots__ = ("name", "sha", "text")

    def __init__(self, name: str, common: bytes, body: bytes) -> None:
        self.name = name
        self.text = _inlined(common + body)
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()


_CONSTANTS = re.compile(rb"^local ([A-Z_][A-Z_0-9, ]+) =\s+(\d[\d, ]*)(?: --.*)?$\n", re.MULTILINE)


def _inlined(text: bytes) -> bytes:
    """The text with its numeric constants in their places: a local that functions capture costs
    every run of a script, once for each of these functions."""
    constants: dict[bytes, bytes] = {}
    for names, values in _CONSTANTS.findall(text):
        split = (names.split(b","), values.split(b","))
        constants.update((name.strip(), value.strip()) for name, value in zip(*split, strict=True))
    names = b"|".join(sorted(constants, reverse=True))
    within = re.compile(rb"(?<!['\w])(" + names + rb")(?!['\w])")
    return within.sub(lambda found: constants[found[1]], _CONSTANTS.sub(b"", text))


class _Scripts:
    """Scripts by name."""

    def __init__(self) -> None:
        self._loaded: dict[str, Script] = {}
        self._common = b""

    def __call__(self, name: str) -> Script:
        script = self._loaded.get(name)
        if script is None:
            self._common = self._common or _read("common")
            script = self._loaded[name] = Script(name, self._common, _read(name))
        return script


def _read(name: str) -> bytes:
    return (_FOLDER / f"{name}.lua").read_bytes()


script = _Scripts()
