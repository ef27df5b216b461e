"""A page of the reference as Markdown."""

import re
from collections.abc import Iterator
from textwrap import dedent

import griffe

from .names import Page
from .reading import Member, Reference, called_as, declaration_of, example_of, text_of

_WIDTH = 96
_INDENTED = re.compile(r"((?:^    .*(?:\n|\Z)|^\n(?=    ))+)", re.MULTILINE)


def page_text(reference: Reference, page: Page) -> str:
    lines = [f"# {page.title}", "", page.intro, ""]
    for name in page.names:
        lines += _section(reference, name)
    return "\n".join(lines).rstrip() + "\n"


def _section(reference: Reference, name: str) -> Iterator[str]:
    found = reference.find(name)
    docstring = "" if found.docstring is None else found.docstring.value
    yield from (f"## {reference.title_of(name)}", "")
    yield from _code(reference.import_of(name))
    made = _made(found) if reference.is_made_by_users(found) else ""
    if made:
        yield from _declared(made)
    yield from (prose(text_of(docstring)), "")
    example = example_of(docstring)
    if example:
        yield from _code(example)
    members = reference.members(name)
    fields = [one for one in members if one.kind in ("field", "property") and not one.example]
    if fields:
        yield from _table(fields, found)
    for member in members:
        if member not in fields:
            yield from _method(reference, name, member)


def _made(found: griffe.Object) -> str:
    """How it is called, where that is not told by its fields."""
    if isinstance(found, griffe.Attribute):
        return f"{found.name} = {found.value}"
    if isinstance(found, griffe.Function):
        if "fixture" in " ".join(str(one.value) for one in found.decorators):
            return ""
        return declaration_of(found)
    init = found.members.get("__init__")
    if not isinstance(init, griffe.Function) or init.lineno in (None, 0):
        return ""
    return called_as(init, found.name).removesuffix(" -> None")


def _method(reference: Reference, name: str, member: Member) -> Iterator[str]:
    yield from (f"### {reference.title_of(name)}.{member.name}", "")
    declaration = member.signature
    if member.kind == "property":
        declaration = f"{member.name}: {declaration}"
    elif member.kind == "sync":
        declaration = declaration.replace("async def", "def")
        declaration = declaration.replace("TaskHandle[", "SyncHandle[")
        declaration = declaration.replace("-> AsyncIterator[", "-> Iterator[")
        declaration = declaration.replace("-> AsyncGenerator[", "-> Iterator[")
    yield from _declared(declaration)
    yield from (prose(member.text), "")
    if member.example:
        yield from _code(member.example)


def _table(fields: list[Member], found: griffe.Object) -> Iterator[str]:
    if "Word" in [str(base) for base in getattr(found, "bases", ())] or found.name == "Backoff":
        yield from ("| member | value | meaning |", "| --- | --- | --- |")
        for field in fields:
            value = field.default.strip("'")
            yield f"| `{field.name}` | `{value}` | {_cell(field.text)} |"
    else:
        yield from ("| | type | meaning |", "| --- | --- | --- |")
        for field in fields:
            default = f" Default: `{_bar(field.default)}`." if _is_plain(field.default) else ""
            type_ = f"`{_bar(field.signature)}`" if field.signature else ""
            yield f"| `{field.name}` | {type_} | {_cell(field.text)}{default} |"
    yield ""


def _is_plain(default: str) -> bool:
    """Whether a default says something to a reader: a value, not how it is worked out."""
    return (
        bool(re.fullmatch(r"[-\w.'\" ()+*]*", default))
        and default != ""
        and "field(" not in (default)
    )


def _cell(text: str) -> str:
    told = " ".join(text.split())
    if told and told[-1] not in ".!?":
        told += "."
    return _bar(told[:1].upper() + told[1:] if told[:1].islower() else told)


def _bar(text: str) -> str:
    return text.replace("|", "\\|")


def prose(text: str) -> str:
    """A docstring's text: blocks that are indented become code."""
    return _INDENTED.sub(
        lambda found: "\n" + "\n".join(_code(dedent(found[1]).strip())), text
    ).strip()


def _code(code: str) -> Iterator[str]:
    yield from ("```python", code, "```", "")


def _declared(declaration: str) -> Iterator[str]:
    """A signature, one parameter a line if it is long. (Not Python that would compile.)"""
    head, _, rest = declaration.partition("(")
    parameters, _, tail = rest.rpartition(")")
    if len(declaration) > _WIDTH:
        broken = "".join(f"    {one},\n" for one in _split(parameters))
        declaration = f"{head}(\n{broken}){tail}"
    yield from ("```py", declaration, "```", "")


def _split(parameters: str) -> Iterator[str]:
    depth, piece = 0, ""
    for character in parameters:
        depth += (character in "[({") - (character in "])}")
        if character == "," and depth == 0:
            yield piece.strip()
            piece = ""
        else:
            piece += character
    if piece.strip():
        yield piece.strip()
