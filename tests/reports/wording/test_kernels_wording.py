"""Names, lines and code of kernels as text."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.kernel_facts import Kernel, Stage, Statement
from ctrace.inspector.findings.kernels.kernel_view import Work
from ctrace.reports.wording.kernels_wording import cut_lines, lines_text, short_names, source_text, work_text
from tests.support.kernelsessions import PER

USERS = "/p/m.py"


def test_names_that_fit_are_unchanged() -> None:
    assert short_names({"mm": 5, "addmm": 5}) == {"mm": "mm", "addmm": "addmm"}


def test_names_are_cut_in_the_middle_and_stay_distinct() -> None:
    names = ["cpp_fused_add_exp_10", "cpp_fused_add_exp_1", "a_much_longer_one.out", "a_much_longer_one.default"]
    cut = short_names(dict.fromkeys(names, 12))
    assert len(set(cut.values())) == 4
    assert all(len(each) <= 12 for each in cut.values())


def test_names_that_would_become_equal_are_not_cut() -> None:
    names = dict.fromkeys(["x" * 30 + "a" + "y" * 30, "x" * 30 + "b" + "y" * 30], 10)
    assert short_names(names) == {name: name for name in names}


@pytest.mark.parametrize(
    ("places", "known", "text"),
    [
        ((), "", "not known"),
        (("/p/a.py:3", "/p/a.py:1"), "", "a.py:1,3"),
        (("/p/a.py:3", "/p/a.py:1"), "/p/a.py", "1,3"),
        (("/p/a.py:3", "/p/b.py:1", "/p/b.py:2"), "/p/b.py", "b.py:1,2 and 1 other file"),
        (tuple(f"/p/a.py:{line}" for line in range(9)), "/p/a.py", "0,1,2,3…"),
    ],
)
def test_lines(places: tuple[str, ...], known: str, text: str) -> None:
    assert lines_text(places, known) == text


@pytest.mark.parametrize(
    ("text", "room", "cut"),
    [
        ("a.py:1,2", 8, "a.py:1,2"),
        ("sdpa_attention.py:81,92", 16, "sdpa_atte…:81,92"),
        ("sdpa_attention.py:81,92,103", 12, "sdpa_at…:81…"),
        ("sdpa_attention.py:81", 5, "sdpa…"),
        ("not known", 4, "not…"),
        ("activations.py:38 and 1 other file", 12, "activat…:38…"),
    ],
)
def test_cut_lines_keep_the_first_number(text: str, room: int, cut: str) -> None:
    assert cut_lines(text, room) == cut


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (Work(None, None, None), "bytes and FLOPs not known"),
        (Work(1024, 1024, None), "reads 1.0 KiB, writes 1.0 KiB, FLOPs not known"),
        (Work(None, None, 2_100_000_000), "bytes not known, 2.1 GFLOP"),
        (Work(0, 0, 0), "reads 0 B, writes 0 B, 0 FLOP"),
        (Work(10, 10, 5), "reads 10 B, writes 10 B, 5 FLOP, 0.25 FLOP/B"),
    ],
)
def test_work(work: Work, text: str) -> None:
    assert work_text(work) == text


class TestSource:
    @pytest.mark.parametrize("code", ["x = y + \\", "x = f('''a", 'x = f("""a', "x = 'a\\n'", "x\u2028y"])
    @pytest.mark.parametrize(("language", "mark"), [("cpp", "//"), ("triton", "#")])
    def test_no_user_line_changes_the_code(self, code: str, language: str, mark: str) -> None:
        kernel = Kernel(
            "0/0", Stage.FORWARD, "k", language, source="a;\nb;", statements=(Statement(2, (f"{USERS}:1",)),)
        )
        first, comment, last = source_text(kernel, {USERS: code}, "/p").split("\n")
        assert (first, last) == ("a;", "b;")
        assert comment.startswith(f"{mark} ── m.py:1")
        assert not any(part in comment for part in ("\\", "'''", '"""', "\u2028"))

    def test_a_line_without_known_source(self) -> None:
        assert "    # ── model.py:6\n    tmp6" in source_text(PER, {}, "/home/user/project")

    def test_without_statements_it_is_the_source(self) -> None:
        assert source_text(replace(PER, statements=()), {}, "") == PER.source

    def test_a_line_of_braces_belongs_to_the_line_before(self) -> None:
        kernel = replace(PER, source="{\na\n}\nb", statements=(Statement(2, (f"{USERS}:1",)),), language="cpp")
        assert source_text(kernel, {}, "/p").split("\n") == [
            "{",
            "// ── m.py:1",
            "a",
            "}",
            "// ── no source line known",
            "b",
        ]
