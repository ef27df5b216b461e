"""Public names, their members, docstrings and examples, out of the source."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from inspect import cleandoc
from pathlib import Path
from typing import Literal

import griffe

from .names import FIRST, INNER, PAGES, ROOT

PACKAGE = "andon"

_EXAMPLE = re.compile(r"(?:^|\n)Examples?:\n((?:    .*\n?|\n)+)\Z")
_COMMENT = re.compile(r"#:\s*(.*)")
_FACE = re.compile(r"(?:blocking|blocking_then|iterating)\((\w+)(?:\[.*?\])?\.(\w+)")

Kind = Literal["method", "property", "field", "sync"]


def text_of(docstring: str) -> str:
    """A docstring without its example."""
    return _EXAMPLE.sub("", cleandoc(docstring)).strip()


def example_of(docstring: str) -> str:
    """The code of a docstring's example; empty if it has none."""
    found = _EXAMPLE.search(cleandoc(docstring))
    return cleandoc("\n" + found[1]) if found else ""


@dataclass(frozen=True)
class Member:
    """One public member of a public class."""

    owner: str  #: path of the class
    name: str
    kind: Kind
    text: str  #: what its docstring or comment says, without the example
    example: str
    signature: str  #: of a method; the annotation of anything else
    default: str
    place: str  #: file:line

    @property
    def path(self) -> str:
        return f"{self.owner}.{self.name}"


class Reference:
    """Everything that the pages list."""

    def __init__(self) -> None:
        self._package = griffe.load(
            PACKAGE, search_paths=[ROOT / "src"], resolve_aliases=True, resolve_external=False
        )

    def find(self, name: str) -> griffe.Object:
        """What a name below the package means. Raises `KeyError` for one there is none."""
        found = self._package[name]
        return found.final_target if isinstance(found, griffe.Alias) else found

    def title_of(self, name: str) -> str:
        return name.rpartition(".")[2]

    def import_of(self, name: str) -> str:
        """The statement by which users get at a name."""
        module, _, last = name.rpartition(".")
        return f"from {'.'.join(filter(None, (PACKAGE, module)))} import {last}"

    @cached_property
    def documented(self) -> dict[str, str]:
        """The names on the pages by the canonical path of what they mean."""
        return {self.find(name).canonical_path: name for page in PAGES for name in page.names}

    def exported(self) -> Iterator[str]:
        """Names that public modules list in `__all__`."""
        for module in ("", "errors", "telemetry", "testing"):
            found = self._package[module] if module else self._package
            for name in found.exports or ():
                path = f"{module}.{name}".lstrip(".")
                if not self._package[path].is_module:
                    yield path

    def members(self, name: str) -> list[Member]:
        """The public members of a class, in the order of the source; none of anything else."""
        found = self.find(name)
        if not isinstance(found, griffe.Class):
            return []
        hidden = self._hidden(found)
        own = found.members if _is_typed_dict(found) else found.all_members
        first = FIRST.get(found.canonical_path.removeprefix(f"{PACKAGE}."), "").split()
        order = [*first, *(key for key in own if key not in first)]
        return [
            self._member(found, member)
            for key, member in ((key, own[key]) for key in order)
            if not key.startswith("_") and key not in hidden and _is_ours(member)
        ]

    def _member(self, owner: griffe.Class, member: griffe.Object | griffe.Alias) -> Member:
        target = member.final_target if isinstance(member, griffe.Alias) else member
        docstring = "" if target.docstring is None else target.docstring.value
        kind: Kind = "field"
        signature, default = "", ""
        if isinstance(target, griffe.Function):
            kind, signature = "method", declaration_of(target)
        elif isinstance(target, griffe.Attribute):
            kind = "property" if "property" in target.labels else "field"
            default = "" if target.value is None or kind == "property" else str(target.value)
            if target.labels == {"instance-attribute"}:
                default = ""  # set by __init__, whose parameters tell
            signature = "" if target.annotation is None else str(target.annotation)
            face = _FACE.match(default)
            if face:
                kind, default = "sync", ""
                behind = self._behind(target, face[1], face[2])
                signature = declaration_of(behind)
                docstring = "" if behind.docstring is None else text_of(behind.docstring.value)
        return Member(
            owner=owner.canonical_path,
            name=target.name,
            kind=kind,
            text=text_of(docstring) or _comment_on(target),
            example=example_of(docstring),
            signature=signature,
            default=default,
            place=place_of(target),
        )

    def _behind(self, face: griffe.Attribute, owner: str, method: str) -> griffe.Function:
        """The async method behind a sync one, which may be that of a base class."""
        path = face.resolve(owner).removeprefix(f"{PACKAGE}.")
        behind = self.find(path)[method]
        behind = behind.final_target if isinstance(behind, griffe.Alias) else behind
        assert isinstance(behind, griffe.Function)
        return behind

    def is_made_by_users(self, found: griffe.Object) -> bool:
        return "__init__" not in self._hidden(found)

    def _hidden(self, found: griffe.Object) -> set[str]:
        return set(INNER.get(found.canonical_path.removeprefix(f"{PACKAGE}."), "").split())

    def named_types(self) -> dict[str, str]:
        """Andon's own classes that public signatures name: canonical path to who names it."""
        named: dict[str, str] = {}
        for name in self.documented.values():
            found = self.find(name)
            objects = [found, *(found.members.values() if found.is_class else ())]
            hidden = self._hidden(found)
            for one in objects:
                target = one.final_target if isinstance(one, griffe.Alias) else one
                is_own = target.name.startswith("_") and target.name != "__init__"
                if target.name in hidden or is_own:
                    continue
                for path in _classes_in(target):
                    if path.startswith(f"{PACKAGE}."):
                        named.setdefault(self._canonical(path), target.canonical_path)
        return named

    def _canonical(self, path: str) -> str:
        try:
            return self.find(path.removeprefix(f"{PACKAGE}.")).canonical_path
        except KeyError:
            return path

    def is_class(self, path: str) -> bool:
        try:
            return self.find(path.removeprefix(f"{PACKAGE}.")).is_class
        except KeyError:
            return False


def declaration_of(function: griffe.Function) -> str:
    """A function as it is declared, its defaults and annotations included."""
    label = "async def" if "async" in function.labels else "def"
    if any("asynccontextmanager" in str(one.value) for one in function.decorators):
        label = "async with"
    return f"{label} {called_as(function)}"


def called_as(function: griffe.Function, name: str | None = None) -> str:
    """Its name with its parameters, without the one that the object itself is."""
    signature = str(function.signature(name=name or function.name))
    return re.sub(r"\(self(?:, )?", "(", signature, count=1)


def place_of(target: griffe.Object) -> str:
    """Where it stands: file:line."""
    path = target.filepath
    assert isinstance(path, Path)
    return f"{path.relative_to(ROOT)}:{target.lineno}"


def _is_ours(member: griffe.Object | griffe.Alias) -> bool:
    target = member.final_target if isinstance(member, griffe.Alias) else member
    return not target.is_module and not target.is_class


def _is_typed_dict(found: griffe.Class) -> bool:
    if any(str(base).endswith("TypedDict") for base in found.bases):
        return True
    return any(_is_typed_dict(base) for base in found.resolved_bases if base.is_class)


def _comment_on(target: griffe.Object) -> str:
    """The `#:` comment beside an attribute."""
    if target.lineno is None or not isinstance(target.filepath, Path):
        return ""
    lines = target.filepath.read_text(encoding="utf-8").splitlines()
    told = lines[target.lineno - 1 : target.endlineno]
    return " ".join(found[1].strip() for line in told if (found := _COMMENT.search(line)))


def _classes_in(target: griffe.Object) -> Iterator[str]:
    annotations: list[object] = []
    if isinstance(target, griffe.Function):
        annotations = [target.returns, *(one.annotation for one in target.parameters)]
    elif isinstance(target, griffe.Attribute):
        annotations = [target.annotation]
    for annotation in annotations:
        if isinstance(annotation, griffe.Expr):
            for piece in annotation.iterate(flat=True):
                if isinstance(piece, griffe.ExprName):
                    yield piece.canonical_path
