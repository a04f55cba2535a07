"""How numbers and foreign text become text."""

import pytest

from ctrace.reports import format as fmt


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "not measured"), (0.0, "0 ms"), (0.0123, "12 ms"), (1.25, "1.2 s"), (99.94, "99.9 s"), (123.4, "123 s")],
)
def test_seconds(value: float | None, text: str) -> None:
    assert fmt.seconds(value) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (12, 14, "12 of 14 (85 %)"),
        (0, 0, "0 of 0"),
        (None, 14, "not measured"),
        (3, None, "not measured"),
        (999, 1000, "999 of 1000 (99 %)"),
    ],
)
def test_share_never_rounds_up_to_all(part: int | None, whole: int | None, text: str) -> None:
    assert fmt.share(part, whole) == text


@pytest.mark.parametrize(("number", "text"), [(0, "no graphs"), (1, "1 graph"), (2, "2 graphs")])
def test_count(number: int, text: str) -> None:
    assert fmt.count(number, "graph") == text


def test_plain_shows_control_characters_instead_of_obeying_them() -> None:
    assert fmt.plain("a\x1b[31mb\u202ec\rd\ne\tf") == "a\\x1b[31mb\\u202ec\\rd\ne\tf"


def test_one_line_folds_and_cuts() -> None:
    assert fmt.one_line("a\n  b\tc") == "a b c"
    assert fmt.one_line("abcdef", 4) == "abc…"


def test_path_is_relative_only_inside_the_working_directory() -> None:
    assert fmt.path("/home/user/project/a/b.py", "/home/user/project") == "a/b.py"
    assert fmt.path("/home/user/project2/b.py", "/home/user/project") == "/home/user/project2/b.py"
    assert fmt.path("b.py", "") == "b.py"


def test_listed() -> None:
    assert fmt.listed("abc", 3) == "a, b, c"
    assert fmt.listed("abcd", 2) == "a, b, and 2 more"
