"""The Lua scripts, one per operation, each loaded from its own file when it is first used. They may
name constants (`stores.kit.templates`)."""

import hashlib
import re
from importlib.resources import files

from andon.stores.kit import templates
from andon.stores.redis.packed import FIELDS

_FOLDER = files("andon.stores.redis") / "lua"

SHARED = ("writing", "common", "lanes", "records")
"""Files of shared parts of scripts; each uses what stands in those before it."""

FIRST = {
    "create": ("create_alone", "create_plain"),
    "claim": ("claim_plain",),
    "commit": ("commit_plain",),
}
"""Scripts that begin with others, before any shared part: for most arguments one of these returns
the answer, for all else the script goes on to the rest. They have the functions of `writing.lua`
in place of their calls, `{{name(arguments)}}`, and its variables, `{{name}}`."""

WRITER_VERSION = 4
"""The format that a process must know to write here; scripts check it, also for a process that has
long been open. 3: it enters tasks in the lists by name. 4: the numbers of tasks are hexadecimal."""

_OWN = {
    "writer_version": WRITER_VERSION,
    "few_lanes": 16,  # a queue that has more keeps its kinds
    "fields_of_entry": len(FIELDS["entry"]),
    "most_kinds": 15,  # that the fast paths read
}


class Script:
    """One script: its whole text, and the digest under which the server keeps it."""

    __slots__ = ("name", "sha", "text")

    def __init__(self, name: str, text: bytes) -> None:
        self.name = name
        self.text = text
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()


_CONSTANTS = re.compile(rb"^local ([A-Z_][A-Z_0-9, ]+) =\s+(\d[\d, ]*)(?: --.*)?$\n", re.MULTILINE)


def _whole(head: bytes, first: bytes, common: bytes, body: bytes) -> bytes:
    """One script's text. What follows head and first is a function of its own: so functions in it
    find the head's locals as upvalues of theirs, where Lua 5.1 would search all locals that any of
    them captures, for each of them."""
    needed = _needed(*(_COMMENTS.sub(b"", _inlined(common + _END + body)).split(_END)))
    begun = _COMMENTS.sub(b"", head + first)
    return begun + b"return (function()\n" + needed + b"\nend)()\n"


_END = b"\nlocal end_of_common\n"
_COMMENTS = re.compile(rb"^ *--.*\n| +-- .*$", re.MULTILINE)
_PARTS = re.compile(rb"^(?=local )", re.MULTILINE)
_DEFINED = re.compile(rb"local (?:function )?(\w+(?:, \w+)*)")
_NAMES = re.compile(rb"[A-Za-z_]\w*")


def _needed(common: bytes, body: bytes) -> bytes:
    """The body after the shared parts that it uses; others are left out, as each run makes all
    functions anew. A part is what begins with `local` at the start of a line, up to the next
    one."""
    used = set(_NAMES.findall(body))
    kept = [body]
    for part in reversed(_PARTS.split(common)):
        defined = _DEFINED.match(part)
        if defined is not None and not used.isdisjoint(defined[1].split(b", ")):
            used.update(_NAMES.findall(part))
            kept.append(part)
    return b"".join(reversed(kept))


def _inlined(text: bytes) -> bytes:
    """The text with its numeric constants in their places: a local that functions capture costs
    every run of a script, once for each of these functions."""
    constants: dict[bytes, bytes] = {}
    for names, values in _CONSTANTS.findall(text):
        split = (names.split(b","), values.split(b","))
        constants.update((name.strip(), value.strip()) for name, value in zip(*split, strict=True))
    if not constants:
        return text
    names = b"|".join(sorted(constants, reverse=True))
    within = re.compile(rb"(?<!['\w])(" + names + rb")(?!['\w])")
    return within.sub(lambda found: constants[found[1]], _CONSTANTS.sub(b"", text))


_FUNCTION = re.compile(r"^local function (\w+)\((.*?)\)\n(.*?)^end$", re.MULTILINE | re.DOTALL)
_VARIABLES = re.compile(r"^local (\w+)[^\n(]*(?:\n +[^\n]+)*$", re.MULTILINE)
_IN_PLACE = re.compile(r"\{\{(\w+)(?:\(([^{}]*)\))?\}\}")

_InPlace = dict[str, tuple[str, str]]
"""The parameters and the text of what can stand in place of its name."""


def _parts_in(text: str) -> _InPlace:
    """The functions and variables that this text defines, by (first) name. In a function may be
    calls of others that come before it."""
    found: _InPlace = {of[1]: ("", of[0]) for of in _VARIABLES.finditer(text)}
    for name, parameters, body in _FUNCTION.findall(text):
        found[name] = parameters, _in_place(body, found)
    return found


def _in_place(text: str, parts: _InPlace) -> str:
    """The text with functions in place of marked calls, and variables in place of their marks."""

    def one(found: re.Match[str]) -> str:
        name, arguments = found.groups()
        if name not in parts and arguments is None:
            return found[0]  # a constant
        if name not in parts:
            raise templates.UnknownConstant(
                f"{found[0]} calls none of: {', '.join(sorted(parts))}."
            )
        parameters, body = parts[name]
        if arguments is None:
            return body
        given = f"  local {parameters} = {arguments}\n" if parameters else ""
        return f"do\n{given}{body}end"

    return _IN_PLACE.sub(one, text)


class Scripts(dict[str, Script]):
    """Scripts by name, each loaded when it is first looked up."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: tuple[_InPlace, bytes, bytes] | None = None

    def __missing__(self, name: str) -> Script:
        if self._shared is None:
            parts = _parts_in(_inlined(_read("writing")).decode())
            common = b"".join(_read(file, parts) for file in SHARED)
            self._shared = parts, _read("head"), common
        parts, head, common = self._shared
        first = b"".join(_inlined(_read(file, parts)) for file in FIRST.get(name, ()))
        script = self[name] = Script(name, _whole(head, first, common, _read(name)))
        return script


def _read(name: str, parts: _InPlace | None = None) -> bytes:
    file = f"{name}.lua"
    text = (_FOLDER / file).read_text(encoding="utf-8")
    if parts is not None:
        text = _in_place(text, parts)
    return templates.lua(text, f"redis/lua/{file}", _OWN, FIELDS).encode()


SCRIPTS = Scripts()
"""The scripts of this release, which change no more once they are loaded."""
