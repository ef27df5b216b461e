"""One Python file, from bytes to facts. Pure: no file, no clock, no task.

Whatever the bytes are, the answer is `Facts` or `Unparsable`.
"""

import ast
import io
import tokenize
import warnings

import msgspec

_QUIET = frozenset(
    (
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
)
"""Tokens that make no line a line of code."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS)
_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.BoolOp,
    ast.comprehension,
    ast.match_case,
)


class Unparsable(Exception):
    """These bytes are no Python source. `code` says what the parser called it (docs/rulings.md,
    R23)."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is in one file."""

    path: str  #: below the folder, with slashes
    size: int  #: bytes
    lines: int
    code: int  #: lines with code on them
    comments: int  #: lines with nothing but a comment
    docs: int  #: lines of docstrings
    functions: int
    classes: int
    documented: int  #: functions and classes that have a docstring
    branches: int  #: places where the flow divides
    longest: int  #: lines of the longest function
    longest_name: str
    imports: tuple[str, ...]  #: top-level modules it imports, sorted
    tries: int = 1  #: which try succeeded

    @property
    def blank(self) -> int:
        """Lines with nothing on them."""
        return self.lines - self.code - self.comments - self.docs


def analyse(source: bytes, path: str, *, tries: int = 1) -> Facts:
    """Parse a file and count what is in it. Raises `Unparsable`."""
    text = _decode(source)
    tree = _parse(text)
    code, comments, docs = _lines(text, tree)
    functions = classes = documented = branches = longest = 0
    longest_name = ""
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            functions += 1
            documented += ast.get_docstring(node, clean=False) is not None
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > longest:
                longest, longest_name = length, node.name
        elif isinstance(node, ast.ClassDef):
            classes += 1
            documented += ast.get_docstring(node, clean=False) is not None
        elif isinstance(node, ast.Import):
            imports.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module:
                imports.add(node.module.partition(".")[0])
        elif isinstance(node, _BRANCHES):
            branches += 1
    return Facts(
        path=path,
        size=len(source),
        lines=text.count("\n") + (text[-1:] not in ("", "\n")),
        code=code,
        comments=comments,
        docs=docs,
        functions=functions,
        classes=classes,
        documented=documented,
        branches=branches,
        longest=longest,
        longest_name=longest_name,
        imports=tuple(sorted(imports)),
        tries=tries,
    )


def _decode(source: bytes) -> str:
    """The text, by the encoding that the file itself names (PEP 263), lines ended as in Python."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding)
    except UnicodeDecodeError as error:
        byte = source[error.start : error.start + 1].hex()
        raise Unparsable(
            f"byte 0x{byte} at {error.start:,} is not {error.encoding}: {error.reason}",
            "UnicodeDecodeError",
        ) from None
    except (SyntaxError, LookupError) as error:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise Unparsable(message, type(error).__name__) from None
    if "\0" in text:
        # ast.parse says so in one way before Python 3.12 and in another since.
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Unparsable(f"line {line}: source code cannot contain null bytes", "SyntaxError")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parse(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file's own escapes are not our business
            return ast.parse(text)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise Unparsable(f"{where}{error.msg}", type(error).__name__) from None
    except (RecursionError, MemoryError) as error:
        raise Unparsable("nested too deeply for the parser", type(error).__name__) from None


def _lines(text: str, tree: ast.Module) -> tuple[int, int, int]:
    """Lines of code, of comments alone, of docstrings; a line counts once, for the first it is."""
    docs = _docstring_lines(tree)
    code: set[int] = set()
    comments: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments.add(token.start[0])
            elif token.type not in _QUIET:
                code.update(range(token.start[0], token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError) as error:
        raise Unparsable(str(error.args[0]), type(error).__name__) from None
    code -= docs
    return len(code), len(comments - code - docs), len(docs)


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, _DOCUMENTED) or not node.body:
            continue
        first = node.body[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines
