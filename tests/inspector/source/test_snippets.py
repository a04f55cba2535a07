"""Lines of a file around one of them."""

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.source.text import Snippet, snippet
from tests.support.helpers import MODEL

TEXT = "one\n  two\n    three(x)\n\tfour\nfive\nsix\n"
SESSION = Session(listings={MODEL: TEXT})


def cut(line: int, span: tuple[int, int] | None = None, around: int = 2) -> Snippet:
    found = snippet(SESSION.listings, MODEL, line, span, around)
    assert found is not None
    return found


def test_two_lines_before_and_after():
    lines = ((1, "one"), (2, "  two"), (3, "    three(x)"), (4, "\tfour"), (5, "five"))
    assert cut(3) == Snippet(lines, 3, None)


def test_one_line_alone():
    assert cut(3, around=0) == Snippet(((3, "    three(x)"),), 3, None)


@pytest.mark.parametrize(("line", "numbers"), [(1, [1, 2, 3]), (2, [1, 2, 3, 4]), (6, [4, 5, 6])])
def test_at_the_ends_of_the_file(line: int, numbers: list[int]):
    assert [number for number, _ in cut(line).lines] == numbers


@pytest.mark.parametrize(("line", "columns"), [(1, (1, 3)), (3, (5, 7)), (4, (2, 4))])
def test_columns_count_from_the_margin(line: int, columns: tuple[int, int]):
    assert cut(line, span=(1, 3)).columns == columns


@pytest.mark.parametrize("line", [0, -1, 7, 10**9])
def test_a_line_that_is_not_there(line: int):
    assert snippet(SESSION.listings, MODEL, line) is None


@pytest.mark.parametrize("listings", [{}, {MODEL: ""}, {"other.py": TEXT}])
def test_a_file_that_nobody_has(listings: dict[str, str]):
    assert snippet(listings, MODEL, 1) is None
