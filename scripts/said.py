"""Everything that Andon says when something goes wrong, as the source has it: log lines at WARNING
and above, errors of stores, problems over HTTP, findings of `andon doctor`. Nothing runs.

    python scripts/said.py            print it, with where it stands

What is filled in at run time shows as `…`. Where a helper takes a log line's words or its level as
arguments, the line is read off those who call the helper.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "andon"

LOGGERS = {"log", "logger", "_logger", "_about_logging", "warnings"}
METHODS = {"warning", "error", "exception", "critical", "log", "warn"}
STORE_ERRORS = {"StoreError", "StoreIncompatible", "StoreUnavailable"}
QUIET = {"DEBUG", "INFO", "NOTSET"}
NOT_SHOWN = {"demo", "bench", "testing"}
"""Packages that nobody runs in production."""

PASSED_ON = {("worker/executors/processes.py", "frame.message")}
"""What a handler's own code has logged in a child process: not ours to explain."""

_PLACEHOLDER = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]")
_MOST_CALLERS_DEEP = 3

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, order=True)
class Said:
    """One thing that may be said."""

    text: str
    place: str  #: file:line of the call that says it


@dataclass(frozen=True)
class Module:
    """A source file, parsed, with the function around each node."""

    path: Path
    tree: ast.Module
    around: dict[ast.AST, Function | None]

    def place(self, node: ast.expr) -> str:
        return f"{self.path.relative_to(ROOT)}:{node.lineno}"


@cache
def modules() -> tuple[Module, ...]:
    return tuple(
        _parsed(path)
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in NOT_SHOWN
    )


def _parsed(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    around: dict[ast.AST, Function | None] = {}

    def visit(node: ast.AST, function: Function | None) -> None:
        around[node] = function
        inner = node if isinstance(node, Function) else function
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(tree, None)
    return Module(path, tree, around)


def log_lines() -> list[Said]:
    """Every log line, and every warning by Python's `warnings`, once for each place."""
    found: set[Said] = set()
    for module in modules():
        for call in _calls(module):
            if _is_logging(call) and not _is_passed_on(module, call):
                found |= set(_lines_of(module, call))
    return sorted(found)


def store_errors() -> list[Said]:
    """What errors of stores say, but for what a server says and is passed on as it is."""
    return _arguments_of(STORE_ERRORS, 0)


def problems() -> list[Said]:
    """The names of problems over HTTP: the last part of `type`."""
    named = _arguments_of({"Problem"}, 1) + _arguments_of({"Kind"}, 0)
    return [said for said in named if re.fullmatch(r"[a-z-]+", said.text)]


def findings() -> list[Said]:
    """What `andon doctor` finds wrong or worth knowing; its advice where the finding has no words
    of its own."""
    found: list[Said] = []
    for module, call in _calls_of({"Finding"}):
        level, _, text, *todo = call.args
        if ast.unparse(level) == "Level.OK":
            continue
        said = next((t for t in (_text(one, [], {}) for one in (text, *todo)) if _has_words(t)), "")
        if said:
            found.append(Said(said, module.place(call)))
    return sorted(found)


def _arguments_of(called: set[str], position: int) -> list[Said]:
    found = [
        Said(_text(call.args[position], [], {}), module.place(call))
        for module, call in _calls_of(called)
        if len(call.args) > position
    ]
    return sorted(said for said in found if _has_words(said.text))


def _calls_of(names: set[str]) -> Iterator[tuple[Module, ast.Call]]:
    for module in modules():
        for call in _calls(module):
            if ast.unparse(call.func).rpartition(".")[2] in names:
                yield module, call


def _calls(module: Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))


def _is_logging(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in METHODS:
        return False
    of = function.value
    if isinstance(of, ast.Name):
        return of.id in LOGGERS
    return isinstance(of, ast.Call) and ast.unparse(of.func) == "logging.getLogger"


def _is_passed_on(module: Module, call: ast.Call) -> bool:
    where = module.path.relative_to(SOURCE).as_posix()
    return any((where, ast.unparse(given)) in PASSED_ON for given in call.args)


def _lines_of(module: Module, call: ast.Call) -> Iterator[Said]:
    assert isinstance(call.func, ast.Attribute)
    level = call.args[0] if call.func.attr == "log" else None
    words = call.args[1 if level is not None else 0]
    rest = call.args[2 if level is not None else 1 :]
    place = module.place(call)
    for given in _givens(module, call, [*filter(None, [level]), words, *rest]):
        if level is not None and _is_quiet(given.get(ast.unparse(level), level)):
            continue
        yield Said(_text(words, rest, given), place)


Given = dict[str, ast.expr]
"""What the parameters of the function around a call stand for, by name."""


def _givens(module: Module, call: ast.Call, pieces: list[ast.expr], deep: int = 0) -> list[Given]:
    """What its callers give, where the level or the words themselves are left to them."""
    function = module.around[call]
    if function is None or deep >= _MOST_CALLERS_DEEP:
        return [{}]
    names = {argument.arg for argument in _arguments(function)} - {"self"}
    level_or_words = [piece for piece in pieces if not _is_said(piece)]
    wanted = {
        node.id
        for piece in level_or_words
        for node in ast.walk(piece)
        if isinstance(node, ast.Name) and node.id in names
    }
    says_enough = any(isinstance(p, ast.Constant) and _has_words(str(p.value)) for p in pieces)
    decides = isinstance(call.func, ast.Attribute) and call.func.attr == "log"
    formats = any(isinstance(piece, ast.JoinedStr) for piece in pieces)
    if not wanted or (says_enough and not decides and not formats):
        return [{}]
    found = [
        _bound(function, caller)
        for other in modules()
        for caller in _calls(other)
        if _is_call_of(function, caller, other, module)
    ]
    return found or [{}]


def _is_said(piece: ast.expr) -> bool:
    return isinstance(piece, ast.Constant)


def _is_call_of(function: Function, call: ast.Call, where: Module, home: Module) -> bool:
    called = call.func
    if isinstance(called, ast.Name):
        return called.id == function.name and _means(function.name, where, home)
    return (
        isinstance(called, ast.Attribute)
        and called.attr == function.name
        and where is home
        and ast.unparse(called.value) == "self"
    )


def _means(name: str, where: Module, home: Module) -> bool:
    """Whether the name in one module is the function of the other."""
    if where is home:
        return True
    dotted = ".".join(home.path.relative_to(SOURCE.parent).with_suffix("").parts)
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == dotted
        and any(alias.name == name for alias in node.names)
        for node in ast.walk(where.tree)
    )


def _arguments(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _bound(function: Function, call: ast.Call) -> Given:
    positional = [*function.args.posonlyargs, *function.args.args]
    if positional and positional[0].arg == "self":
        positional = positional[1:]
    given: Given = dict(zip((one.arg for one in positional), call.args, strict=False))
    defaults = function.args.defaults
    for argument, default in zip(
        positional[len(positional) - len(defaults) :], defaults, strict=True
    ):
        given.setdefault(argument.arg, default)
    for keyword in call.keywords:
        if keyword.arg is not None:
            given[keyword.arg] = keyword.value
    return given


def _is_quiet(level: ast.expr) -> bool:
    return ast.unparse(level).rpartition(".")[2] in QUIET


def _text(words: ast.expr, rest: list[ast.expr], given: Given) -> str:
    template = _said(words, given)
    values = iter(rest)

    def filled(_: re.Match[str]) -> str:
        value = next(values, None)
        return "…" if value is None else _said(value, given)

    text = _PLACEHOLDER.sub(filled, template.replace("%%", "%\0")).replace("%\0", "%")
    return shortened(text)


def _said(piece: ast.expr, given: Given) -> str:
    """The words of an expression; … for what is only known at run time."""
    if isinstance(piece, ast.Constant):
        return str(piece.value)
    if isinstance(piece, ast.JoinedStr):
        return "".join(_said(part, given) for part in piece.values)
    if isinstance(piece, ast.FormattedValue):
        return _said(piece.value, given)
    if isinstance(piece, ast.Name) and piece.id in given:
        return _said(given[piece.id], {})
    return "…"


def shortened(text: str) -> str:
    """A text as it is looked for: one line, and what is filled in shown once."""
    return re.sub(r"…(?:[\s…]*…)+", "…", " ".join(text.split()))


def _has_words(text: str) -> bool:
    return bool(re.search(r"[A-Za-z]{2,}", _PLACEHOLDER.sub("", text)))


def main() -> int:
    for collect in (log_lines, store_errors, problems, findings):
        print(f"== {collect.__name__}")
        for said in collect():
            print(f"{said.text}\n    {said.place}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
