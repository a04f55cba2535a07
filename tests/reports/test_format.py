"""Formatting of numbers, paths and foreign text."""

import pytest

from ctrace.inspector.facts.findings import Cost
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
        (12, 14, "12 of 14 (85%)"),
        (0, 0, "0 of 0"),
        (None, 14, "not measured"),
        (3, None, "not measured"),
        (999, 1000, "999 of 1000 (99%)"),
    ],
)
def test_share_never_rounds_up_to_all(part: int | None, whole: int | None, text: str) -> None:
    assert fmt.share(part, whole) == text


@pytest.mark.parametrize(("number", "text"), [(0, "no graphs"), (1, "1 graph"), (2, "2 graphs")])
def test_count(number: int, text: str) -> None:
    assert fmt.count(number, "graph") == text


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(), ""),
        (Cost(0, 0), ""),
        (Cost(1), "1 op in eager"),
        (Cost(None, 2), ""),
        (Cost(3, 1), "3 ops in eager"),
    ],
)
def test_cost_leaves_out_zero_unmeasured_and_graph_counts(cost: Cost, text: str) -> None:
    assert fmt.cost(cost) == text


def test_plain_escapes_control_characters() -> None:
    assert fmt.plain("a\x1b[31mb\u202ec\rd\ne\tf") == "a\\x1b[31mb\\u202ec\\rd\ne\tf"


def test_one_line_folds_and_cuts() -> None:
    assert fmt.one_line("a\n  b\tc") == "a b c"
    assert fmt.one_line("abcdef", 4) == "abc…"


def test_path_is_relative_only_inside_the_working_directory() -> None:
    assert fmt.path("/home/user/project/a/b.py", "/home/user/project") == "a/b.py"
    assert fmt.path("/home/user/project2/b.py", "/home/user/project") == "/home/user/project2/b.py"
    assert fmt.path("b.py", "") == "b.py"


@pytest.mark.parametrize(
    ("file", "line", "text"),
    [
        ("/home/user/project/a/b.py", 3, "a/b.py:3"),
        ("/home/user/project/a/b.py", None, "a/b.py"),
        ("/venv/lib/python3.11/site-packages/einops/einops.py", 9, "einops/einops.py:9"),
        ("/usr/lib/python3/dist-packages/einops/einops.py", None, "einops/einops.py"),
        ("/home/user/project/.venv/lib/python3.11/site-packages/einops/einops.py", 9, "einops/einops.py:9"),
        ("C:\\env\\Lib\\site-packages\\einops\\einops.py", 9, "einops\\einops.py:9"),
        ("/srv/site-packages.py", 9, "/srv/site-packages.py:9"),
    ],
)
def test_a_place_in_an_installed_package_begins_with_the_package(file: str, line: int | None, text: str) -> None:
    assert fmt.place(file, line, "/home/user/project") == text


def test_listed() -> None:
    assert fmt.listed("abc", 3) == "a, b, c"
    assert fmt.listed("abcd", 2) == "a, b, and 2 more"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 FLOP"), (999, "999 FLOP"), (1000, "1.0 kFLOP"), (999_960, "1.0 MFLOP"), (3 * 10**16, "30.0 PFLOP")],
)
def test_flops(number: int, text: str) -> None:
    assert fmt.flops(number) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.083, "0.08"), (0.95, "0.9"), (0.96, "1.0"), (12.34, "12.3"), (341.3, "341")]
)
def test_intensity(value: float, text: str) -> None:
    assert fmt.intensity(value) == text


def test_a_tensor() -> None:
    assert fmt.tensor("float32", ("s0", "64")) == "f32[s0, 64]"
    assert fmt.tensor("float8_e4m3fn", (8,)) == "float8_e4m3fn[8]"
    assert fmt.tensor("bool", ()) == "b8[]"


def test_what_is_not_there_is_not_said() -> None:
    assert [fmt.framed(" (", text, ")") for text in (None, "", "x", 0)] == ["", "", " (x)", " (0)"]
    assert [fmt.some(number, "pass") for number in (None, 0, 1, 2)] == ["", "", "1 pass", "2 passes"]
    assert [fmt.repeated(number, " ×") for number in (0, 1, 2)] == ["", "", " ×2"]
    assert fmt.joined("; ", "a", "", "b") == "a; b"


def test_some_words_are_said_only_in_some_cases() -> None:
    assert [fmt.when(case, ", costliest first") for case in (3, 0, None)] == [", costliest first", "", ""]


def test_without_a_file_there_is_no_place() -> None:
    assert fmt.place(None, 3, "/work") == fmt.place("", 3, "/work") == ""


def test_what_is_not_known_has_a_word() -> None:
    assert [fmt.known(size, fmt.memory) for size in (None, 0, 512)] == ["?", "0 B", "512 B"]
    assert fmt.known(None, otherwise="not measured") == "not measured"
