"""Bytes become facts, or an `Unparsable` that says why."""

import sys

import pytest

from andon.demo.analysis import Unparsable, analyse

SOURCE = '''\
#!/usr/bin/env python3
"""What it is.

More of it.
"""

import os
import xml.dom  # used below
from collections.abc import Iterator
from . import near


class Box:
    """Holds."""

    async def open(self):
        text = """
# not a comment

"""
        if text:
            return os

def plain(): return 1
'''


def test_every_kind_of_line_is_counted_once() -> None:
    facts = analyse(SOURCE.encode(), "a.py")
    assert facts.lines == len(SOURCE.splitlines())
    assert (facts.comments, facts.docs, facts.code, facts.blank) == (1, 5, 13, 5)


def test_what_is_defined_and_imported_is_counted() -> None:
    facts = analyse(SOURCE.encode(), "a.py")
    assert (facts.functions, facts.classes, facts.documented, facts.branches) == (2, 1, 1, 1)
    assert (facts.longest_name, facts.longest) == ("open", 7)
    assert facts.imports == ("collections", "os", "xml")


def test_an_empty_file_has_nothing_in_it() -> None:
    facts = analyse(b"", "empty.py")
    assert (facts.lines, facts.blank, facts.imports) == (0, 0, ())


def test_the_encoding_that_the_file_names_is_used() -> None:
    assert analyse(b"# -*- coding: latin-1 -*-\nname = '\xe9'\n", "a.py").lines == 2


def test_lines_end_as_in_python() -> None:
    assert analyse(b"a = 1\r\nb = 2\rc = '\x0c'", "a.py").lines == 3


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        (b"x = (\n", "SyntaxError", "line 1"),
        (b"if x:\n  y\n z\n", "IndentationError", "line 3"),
        (b"a = 1\nb = '\0'\n", "SyntaxError", "line 2: source code cannot contain null bytes"),
        (b"# coding: uft-8\n", "SyntaxError", "unknown encoding: uft-8"),
        (b"x = 1\n" * 9 + b"y = '\xff'\n", "UnicodeDecodeError", "byte 0xff at 59"),
        (b"(" * 5_000, "SyntaxError", "too many nested parentheses"),
    ],
)
def test_what_does_not_parse_says_why(source: bytes, code: str, message: str) -> None:
    with pytest.raises(Unparsable) as raised:
        analyse(source, "bad.py")
    assert raised.value.code == code
    assert message in str(raised.value)


def test_nesting_deeper_than_the_parser_goes_is_an_answer_too() -> None:
    source = b"1" + b"+1" * 20 * sys.getrecursionlimit()
    try:
        said = str(analyse(source, "deep.py").lines)  # newer parsers go further
    except Unparsable as error:
        said = str(error)
    assert said in {"1", "nested too deeply for the parser"}
