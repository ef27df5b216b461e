"""SQL and Lua with named constants: `{{name}}` stands for one of `STATEMENT_CONSTANTS`, or for one
that the store adds. A list is written as the language has it: `'a', 'b'` in SQL, `a = true,
b = true` in Lua. Text that names a constant which does not exist is refused when it is loaded."""

import re
from collections.abc import Callable, Mapping

from andon.lifecycle.constants import STATEMENT_CONSTANTS

_MARKER = re.compile(r"\{\{(\w+)\}\}")

Constants = Mapping[str, int | tuple[str, ...]]


class UnknownConstant(LookupError):
    """A statement or script names a constant that nobody has defined."""


def sql(text: str, file: str, more: Constants | None = None) -> str:
    """SQL with its constants in their places; `file` is named if one of them does not exist."""
    return _filled(text, file, more or {}, lambda names: ", ".join(f"'{name}'" for name in names))


def lua(text: str, file: str, more: Constants | None = None) -> str:
    """Lua with its constants in their places; `file` is named if one of them does not exist."""
    return _filled(text, file, more or {}, lambda names: ", ".join(f"{n} = true" for n in names))


def _filled(
    text: str, file: str, more: Constants, as_list: Callable[[tuple[str, ...]], str]
) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        constant = more[name] if name in more else STATEMENT_CONSTANTS.get(name)
        if constant is None:
            known = ", ".join(sorted({*STATEMENT_CONSTANTS, *more}))
            raise UnknownConstant(f"{file} names {{{{{name}}}}}, which is none of: {known}.")
        return str(constant) if isinstance(constant, int) else as_list(constant)

    return _MARKER.sub(value, text)
