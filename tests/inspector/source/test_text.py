"""Source as text that parses."""

import ast
import warnings

import pytest

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.source.text import as_program, nodes_of, parsed, python_lines, replaced_lines, text_around


@pytest.mark.parametrize("text", ["def f(:", "x = \0", "(" * 1000 + ")" * 1000])
def test_what_is_no_python_has_no_tree(text: str) -> None:
    assert parsed(text) is None


def test_what_python_warns_of_and_a_mark_of_byte_order_are_read() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parsed('\ufeffp = "\\d"') is not None


@pytest.mark.parametrize("line", ["  if x.sum() > 0:", "while x:", "for a in b:", "with open(x) as y:", "def f(x):"])
def test_the_head_of_a_block_is_a_program(line: str) -> None:
    assert as_program(line).splitlines() == [line.strip(), "    pass"]


@pytest.mark.parametrize("line", ["x = 1", "if x: y()", "", "elif x:", "print(x,"])
def test_another_line_stays_as_it_is(line: str) -> None:
    assert as_program(line) == line


def test_a_line_stands_in_its_file_or_alone() -> None:
    frame = Frame("m.py", 7, "forward", "if x:")
    assert text_around({"m.py": "text"}, frame) == ("text", 7)
    assert text_around({"other.py": "text"}, frame) == ("if x:\n    pass", 1)


def test_a_missing_tree_has_no_nodes() -> None:
    assert list(nodes_of(parsed("def f(:"))) == []
    assert len(list(nodes_of(parsed("x")))) == 4  # the module, its statement, the name and how it is used


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("odd", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_lines_are_those_that_python_numbers(odd: str, end: str) -> None:
    text = end.join(["import math", f"# {odd}one{odd}two", "\f", "", "def f(x):", "    return x", ""])
    (function,) = [each for each in nodes_of(parsed(text)) if isinstance(each, ast.FunctionDef)]
    assert python_lines(text)[function.lineno - 1] == "def f(x):"
    assert python_lines(text)[-1] == "    return x"
    assert replaced_lines(text, text.replace("return x", "return -x")) == {6}
