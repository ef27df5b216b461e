"""Arguments and results as a page shows them: indented, with secrets hidden, cut if they are long.

Values whose names say that they are secret (`password`, `api_key`, …) are hidden at any depth, and
so are those of names that the application adds. Nothing is hidden in the store, only on screens.
"""

import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from andon.dashboard.views.looks import MOST_TEXT, Shortened, lines_of
from andon.lifecycle import payloads
from andon.model.urls import HIDDEN

SECRET = re.compile(
    r"pass(word|wd|phrase)?$|pwd|secret|token|credential|signature|api_?key|access_?key|"
    r"private_?key|authorization|cookie|card_?number|cvc|cvv|iban|ssn",
    re.IGNORECASE,
)
"""The names of hidden values."""

_MOST_DEPTH = 40
_MOST_READ = 1024 * 1024
"""Up to how many bytes a body is decoded to be shown; of a larger one only the beginning is
shown."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments or a result."""

    text: str
    size: int  #: bytes
    more: int = 0  #: characters that are left out
    hidden: int = 0  #: values that are not shown
    is_json: bool = True
    is_exact: bool = False  #: the text is the whole body: nothing is hidden or left out


class Redaction:
    """The rule for hidden values: the usual names, and those given in addition (regular
    expressions)."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = [SECRET, *(re.compile(name, re.IGNORECASE) for name in names)]

    def hides(self, name: str) -> bool:
        """Whether a value of this name is hidden."""
        return any(pattern.search(name) for pattern in self._names)

    def seen(self, body: bytes | None) -> Body | None:
        """A body as it may be shown."""
        if body is None:
            return None
        if len(body) > _MOST_READ:
            # A beginning cannot be searched for names, so nothing of it is shown.
            return Body(text="", size=len(body), more=len(body), is_json=False)
        try:
            value = payloads.parse(body)
        except ValueError:
            cut = lines_of(body[:2_000].decode("utf-8", "backslashreplace"))
            return Body(
                text=cut.text, size=len(body), more=max(0, len(body) - 2_000), is_json=False
            )
        counted = [0]
        encoded = msgspec.json.encode(self._without_secrets(value, counted, 0))
        text: Shortened = lines_of(msgspec.json.format(encoded, indent=2).decode(), MOST_TEXT)
        return Body(
            text=text.text,
            more=text.more,
            size=len(body),
            hidden=counted[0],
            is_exact=not (counted[0] or text.more) and _means(text.text, value),
        )

    def headers(self, headers: dict[str, str]) -> list[tuple[str, str]]:
        """Headers as they may be shown."""
        return [(name, HIDDEN if self.hides(name) else value) for name, value in headers.items()]

    def _without_secrets(self, value: Any, counted: list[int], depth: int) -> Any:
        if depth > _MOST_DEPTH:
            return "…"
        if isinstance(value, dict):
            shown: dict[str, Any] = {}
            for name, inner in cast("dict[str, Any]", value).items():
                if inner is not None and self.hides(name):
                    counted[0] += 1
                    shown[name] = HIDDEN
                else:
                    shown[name] = self._without_secrets(inner, counted, depth + 1)
            return shown
        if isinstance(value, list):
            inner_values = cast("list[Any]", value)
            return [self._without_secrets(inner, counted, depth + 1) for inner in inner_values]
        return value


def _means(text: str, value: Any) -> bool:
    """Whether a text is a value: the marks of hidden values, or of a cut at a depth, are none."""
    try:
        return payloads.parse(text.encode("utf-8", "surrogatepass")) == value
    except ValueError:
        return False
