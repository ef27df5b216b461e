"""Which kinds of tasks the codes of workers may claim, remembered: the rule is asked once for each
kind and code (docs/rulings.md, R32)."""

from collections.abc import Callable

from andon.lifecycle.routing import may_claim
from andon.model.code import Code

_MOST_CODES = 256
_MOST_KINDS = 4_096
"""Codes, and kinds of each, that are remembered."""


def _everything(_kind: str) -> bool:
    return True


class KnownCodes:
    """The answers of `lifecycle.routing.may_claim`."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kinds] = {}

    def kinds_of(self, code: Code | None) -> Callable[[str], bool]:
        """Whether a worker with this code may claim tasks of a kind."""
        if code is None:
            return _everything
        kinds = self._kinds.get(code.digest)
        if kinds is None:
            if len(self._kinds) >= _MOST_CODES:
                del self._kinds[next(iter(self._kinds))]
            kinds = self._kinds[code.digest] = _Kinds(code)
        return kinds.__getitem__


class _Kinds(dict[str, bool]):
    def __init__(self, code: Code) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, kind: str) -> bool:
        if len(self) >= _MOST_KINDS:
            self.clear()
        self[kind] = may = may_claim(self._code, kind)
        return may
