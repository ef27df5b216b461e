"""SQL and Lua with named constants: `{{name}}` stands for one of `STATEMENT_CONSTANTS`, or for one
that the store adds. A list is written as the language has it: `'a', 'b'` in SQL, `a = true,
b = true` in Lua.

In Lua, `{{state in live_states}}` compares with each of a list, without a table to
look in, and `local {{fields.entry STATE, QUEUE}}` makes locals of the places that fields have in a
packed list, and `{{entry_state}}` is one such place. Text that names what does not exist is refused
when it is loaded.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from andon.lifecycle.constants import STATEMENT_CONSTANTS

_MARKER = re.compile(r"\{\{(\w+)\}\}")
_IS_IN = re.compile(r"\{\{(\w+) in (\w+)\}\}")
_FIELDS = re.compile(r"\{\{fields\.(\w+) ([\w\s,]+)\}\}")

Constants = Mapping[str, int | tuple[str, ...]]


class UnknownConstant(LookupError):
    """A statement or script names a constant that is not defined."""


def sql(text: str, file: str, more: Constants | None = None) -> str:
    """SQL with its constants in their places; `file` is named if one of them does not exist."""
    return _filled(text, file, more or {}, lambda names: ", ".join(f"'{name}'" for name in names))


def lua(
    text: str,
    file: str,
    more: Constants | None = None,
    fields: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Lua with its constants in their places; `file` is named if one of them does not exist.
    `fields`: of each packed list, in their order."""
    fields = fields or {}
    text = _FIELDS.sub(lambda found: _places(found, file, fields), text)
    text = _IS_IN.sub(lambda found: _comparisons(found, file, more or {}), text)
    each = {f"{of}_{name}": i for of, names in fields.items() for i, name in enumerate(names, 1)}
    return _filled(
        text, file, {**each, **(more or {})}, lambda names: ", ".join(f"{n} = true" for n in names)
    )


def _comparisons(found: re.Match[str], file: str, more: Constants) -> str:
    names = _constant(found[2], file, more)
    if isinstance(names, int):
        raise UnknownConstant(f"{file} looks in {{{{{found[2]}}}}}, which is a number, not a list.")
    return "(" + " or ".join(f"{found[1]} == '{name}'" for name in names) + ")"


def _places(found: re.Match[str], file: str, fields: Mapping[str, Sequence[str]]) -> str:
    of = fields.get(found[1], ())
    names = [name.strip() for name in found[2].split(",")]
    unknown = [name for name in names if name.lower() not in of]
    if unknown:
        raise UnknownConstant(
            f"{file} names {unknown[0]} of {found[1]!r}, whose fields are: {', '.join(of)}."
        )
    places = ", ".join(str(of.index(name.lower()) + 1) for name in names)
    return f"{', '.join(names)} = {places}"


def _filled(
    text: str, file: str, more: Constants, as_list: Callable[[tuple[str, ...]], str]
) -> str:
    def value(found: re.Match[str]) -> str:
        constant = _constant(found[1], file, more)
        return str(constant) if isinstance(constant, int) else as_list(constant)

    return _MARKER.sub(value, text)


def _constant(name: str, file: str, more: Constants) -> int | tuple[str, ...]:
    constant = more[name] if name in more else STATEMENT_CONSTANTS.get(name)
    if constant is None:
        known = ", ".join(sorted({*STATEMENT_CONSTANTS, *more}))
        raise UnknownConstant(f"{file} names {{{{{name}}}}}, which is none of: {known}.")
    return constant
