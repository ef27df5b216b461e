"""The Lua scripts, one per operation, each loaded from its own file when it is first used."""

import hashlib
from importlib.resources import files

_FOLDER = files("andon.stores.redis") / "lua"


class Script:
    """One script: its whole text, and the digest under which the server keeps it."""

    __slots__ = ("name", "sha", "text")

    def __init__(self, name: str, common: bytes, body: bytes) -> None:
        self.name = name
        self.text = common + body
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()


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
