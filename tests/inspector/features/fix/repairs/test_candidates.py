"""Lines and arguments that settings write, and what a change has to reach."""

import ast
from pathlib import Path

import pytest

from ctrace.inspector.diagnosis.diagnosis_scene import DiagnosisScene
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind, Symptom
from ctrace.inspector.facts.findings import Break, BreakKind, Cause, CauseKind, Owner, Recompile
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.fix.repairs.candidates import (
    Files,
    candidates,
    conditions_of,
    places,
    with_compile_argument,
    with_line,
)
from tests.inspector.diagnosis.scenes import broken, ran, scene

LINE = "torch._dynamo.config.capture_scalar_outputs = True"


def test_a_line_comes_after_the_imports():
    made = with_line("import torch\nfrom torch import nn\n\nx = 1\n", LINE)
    assert made == f"import torch\nfrom torch import nn\n\n{LINE}\n\nx = 1\n".replace(f"{LINE}\n\n\n", f"{LINE}\n\n")


def test_a_line_uses_the_files_own_name_of_torch():
    assert with_line("import torch as t\n", LINE) == f"import torch as t\n\nt{LINE.removeprefix('torch')}\n"


def test_missing_modules_are_imported():
    made = with_line("from torch import nn\n", "torch.f(warnings.warn)", ["warnings"])
    assert made == "from torch import nn\nimport torch\nimport warnings\n\ntorch.f(warnings.warn)\n"


def test_line_ends_stay():
    made = with_line("import torch\r\nx = 1\r\n", LINE)
    assert made is not None
    assert made.count("\r\n") == made.count("\n")


def test_a_file_without_imports_gets_no_line():
    assert with_line("x = 1\n", LINE) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f = torch.compile(g)\n", "f = torch.compile(g, dynamic=True)\n"),
        ("@torch.compile\ndef f(): pass\n", "@torch.compile(dynamic=True)\ndef f(): pass\n"),
        ("@torch.compile()\ndef f(): pass\n", "@torch.compile(dynamic=True)\ndef f(): pass\n"),
        ("f = torch.compile(g, )\n", "f = torch.compile(g,  dynamic=True)\n"),
        ("f = torch.compile(g, dynamic=False)\n", None),
        ("f = torch.compile(g, **options)\n", None),
        ("f = g\n", None),
    ],
)
def test_an_argument_of_torch_compile(before: str, after: str | None):
    made = with_compile_argument(before, "dynamic=True")
    assert made == after
    if made is not None:
        ast.parse(made)


SOURCE = """\
def forward(x):
    y = x + 1
    if x.sum() > 0:
        y = y * 2
    return y
"""


def test_a_replaced_branch_must_be_taken_both_ways():
    after = SOURCE.replace("    if x.sum() > 0:\n        y = y * 2\n", "    y = where(x.sum() > 0, y * 2, y)\n")
    found = [(each.line, each.expression) for each in conditions_of("f.py", SOURCE, after)]
    assert found == [(3, "x.sum() > 0"), (4, "")]


def test_what_decides_whether_the_rest_of_a_condition_is_evaluated_is_a_part():
    before = "def f(x):\n    if a and b and c:\n        x = x + 1\n    return x\n"
    found = conditions_of("f.py", before, "def f(x):\n    x = torch.where(a & b & c, x + 1, x)\n    return x\n")
    assert [each.expression for each in found if each.is_part] == ["a", "a and b"]
    assert [each.expression for each in found if not each.is_part] == ["a and b and c", ""]


def test_an_insertion_has_nothing_to_reach():
    assert conditions_of("f.py", SOURCE, f"import torch\n{SOURCE}") == ()


def test_a_changed_handler_must_run():
    before = "def f(x):\n    try:\n        a()\n    except E:\n        b()\n"
    found = conditions_of("f.py", before, before.replace("b()", "c()"))
    assert [(each.line, each.expression) for each in found] == [(5, "")]


def test_files_that_cannot_be_read_are_problems(tmp_path):
    files = Files()
    latin = tmp_path / "latin.py"
    latin.write_bytes(b"# \xe9\n")
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n")
    for path in (latin, broken, tmp_path / "absent.py"):
        assert files.text(str(path)) is None
    assert len(files.problems) == 3
    assert "not in UTF-8" in files.problems[0]
    assert "cannot parse" in files.problems[1]


def _break(line: int) -> Break:
    return Break(("GB0124",), BreakKind.BREAK, Owner.USER, "f.py", line, "forward", "", "", "", 1, ("0/0",))


def _cause(name: str, *symptoms: Symptom) -> RootCause:
    return RootCause(name, RootKind.TENSOR_BRANCH, name, "f.py", 1, "forward", symptoms)


def test_a_repair_at_a_break_is_of_that_break_and_not_of_one_that_recompiles_there():
    """The part that resumes after the second break recompiles for what the first one returned."""
    again = Recompile("1/1", "forward", "f.py", 5, False, (Cause(CauseKind.SIZE, "x.size(0)", "4", "8"),))
    session = Session(breaks=(_break(2), _break(5)), recompiles=(again,))
    first = _cause("first", Symptom(Finding.BREAK, 0), Symptom(Finding.RECOMPILE, 0))
    second = _cause("second", Symptom(Finding.BREAK, 1))
    scene = DiagnosisScene(session, (first, second))
    files = Files({"f.py": "a = 1\n" * 6})
    assert {each.line for each in places(scene, first, files)} == {2}
    assert {each.line for each in places(scene, second, files)} == {5}


@pytest.mark.parametrize(
    ("line", "construct", "asked"),
    [
        ("now = time.monotonic()", "clock", "0.0 if torch.compiler.is_compiling() else time.monotonic()"),
        ("Op.calls += 1", "", "if not torch.compiler.is_compiling(): Op.calls += 1"),
        ("warnings.simplefilter('ignore')", "", "filters of warnings"),
    ],
)
def test_what_compiled_calls_leave_out_is_a_question(tmp_path: Path, line: str, construct: str, asked: str):
    text = f"import time\nimport torch\nimport warnings\n\ndef forward(self, x):\n    {line}\n    return x\n"
    file = tmp_path / "net.py"
    file.write_text(text)
    session = ran(text, broken(6, construct=construct, file=str(file), owner=Owner.USER), file=str(file))
    found = candidates(scene(session), Files(), None)
    assert [asked in each.question for each in found if each.kind == "source"] == [True]
