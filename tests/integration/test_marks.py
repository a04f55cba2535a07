"""Every line that `ctrace shapes` suggests has the promised effect on the installed torch."""

from typing import Any

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.shape_view import by_function
from ctrace.inspector.findings.shapes_document import marks
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store
from tests.integration.conftest import Command

HEAD = "import torch\n"
CASES = {
    "a size that varied": """\
@torch.compile(backend="eager")
def f(x):
    return x * 2
for n in (4, 8, 16):
    x = torch.randn(n, 5)
    # here
    f(x)
""",
    "two sizes that must be equal": """\
@torch.compile(backend="inductor")
def f(x, y):
    return (x + y).sum()
for n in (4, 8):
    x, y = torch.randn(n, 5), torch.randn(n, 5)
    # here
    f(x, y)
""",
    "a bound from a condition": """\
@torch.compile(backend="eager")
def f(x):
    return x * 2 if x.shape[0] > 3 else x * 3
for n in (4, 8, 16):
    x = torch.randn(n, 5)
    # here
    f(x)
""",
    "a range from a condition": """\
@torch.compile(backend="inductor")
def f(x):
    return x * 2 if 3 < x.shape[0] < 100 else x * 3
for n in (4, 8, 16):
    x = torch.randn(n, 5)
    # here
    f(x)
""",
    "a condition that is more than a range": """\
@torch.compile(backend="eager")
def f(x):
    return x * 2 if x.shape[0] % 2 == 0 and x.shape[0] > 3 else x * 3
for n in (4, 8, 16):
    x = torch.randn(n, 5)
    # here
    f(x)
""",
    "a list and a dict": """\
@torch.compile(backend="eager")
def f(items, more):
    return items[1] * 2, more["mask"] + 1
for n in (4, 8):
    items, more = [1, torch.randn(n)], {"mask": torch.randn(3, n)}
    # here
    f(items, more)
""",
    "duck-shaped sizes": """\
@torch.compile(backend="eager", dynamic=True)
def f(x, y):
    return x.sum(0) + 0 * y.sum()
for n in (8, 9):
    x, y = torch.randn(8, 4), torch.randn(n, 3)
    # here
    f(x, y)
""",
    "dynamic=False": """\
@torch.compile(backend="eager", dynamic=False)
def f(x):
    return x + 1
for n in (2, 3, 4):
    x = torch.randn(n)
    # here
    f(x)
""",
    "zero and one": """\
@torch.compile(backend="eager", dynamic=True)
def f(x):
    return x * 2
for n in (4, 1, 0, 9):
    x = torch.randn(n, 3)
    # here
    f(x)
""",
}
ONLY_ENVIRONMENT = {
    "parameters": """\
@torch.compile(backend="eager")
def f(w):
    return w * 2
for n in (2, 3, 4):
    f(torch.nn.Parameter(torch.randn(n, 4)))
""",
    "a number": """\
@torch.compile(backend="eager")
def f(x, n):
    return x * n
x = torch.randn(3)
for n in (5, 6, 7):
    f(x, n)
""",
}
SETTING = "TORCH_COMPILE_DYNAMIC_SOURCES="


def _named(name: str) -> str:
    return "f_" + "".join(letter if letter.isalnum() else "_" for letter in name)


def _together(cases: dict[str, str], lines: dict[str, tuple[str, ...]] | None = None) -> str:
    """Put all cases into one program, with one function per case and its suggested lines."""
    made = [HEAD]
    for name, text in cases.items():
        pasted = "; ".join((lines or {}).get(name, ())) or "pass"
        made.append(text.replace("f(", f"{_named(name)}(").replace("# here", pasted))
    return "".join(made)


def _run(ctrace: Command, script: str, **environment: Any) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Run all cases; return the compilations and the suggested lines of each."""
    ctrace.write("script.py", script)
    result = ctrace("shapes", "script.py", "--json", **environment)
    assert result.code == 0, result.err
    session = load(Store(ctrace.folder / ".ctrace").load())
    return {name: _of(session, name) for name in {**CASES, **ONLY_ENVIRONMENT}}


def _of(session: Session, name: str) -> tuple[int, tuple[str, ...]]:
    shown = by_function(session, _named(name))
    lines = tuple(mark.line for mark in marks(shown, session.environment.torch) if mark.line)
    return sum(each.graphs for each in shown), lines


def _sources(line: str) -> list[str]:
    return line.removeprefix(SETTING).strip('"').split(",")


@pytest.mark.slow
def test_offered_lines_leave_one_graph(ctrace: Command) -> None:
    cases = {**CASES, **ONLY_ENVIRONMENT}
    before = _run(ctrace, _together(cases))
    assert {name: found[0] > 1 for name, found in before.items()} == dict.fromkeys(cases, True)
    pasted = {
        name: tuple(line for line in lines if not line.startswith(SETTING)) for name, (_, lines) in before.items()
    }
    assert {name for name, lines in pasted.items() if lines} == set(CASES)
    after = _run(ctrace, _together(cases, pasted))
    assert {name: after[name][0] for name in CASES} == dict.fromkeys(CASES, 1)

    settings = {name: [line for line in lines if line.startswith(SETTING)] for name, (_, lines) in before.items()}
    # No setting makes 0 and 1 dynamic.
    assert {name: len(lines) for name, lines in settings.items()} == {**dict.fromkeys(cases, 1), "zero and one": 0}
    parts = [part for lines in settings.values() for line in lines for part in _sources(line)]
    set_ = _run(ctrace, _together(cases), TORCH_COMPILE_DYNAMIC_SOURCES=",".join(dict.fromkeys(parts)))
    assert {name: set_[name][0] for name, lines in settings.items() if lines} == {
        name: 1 for name, lines in settings.items() if lines
    }


CHECKED = """\
torch._dynamo.config.capture_dynamic_output_shape_ops = True
@torch.compile(backend="eager", fullgraph=True)
def f(x):
    index = x.nonzero()
    # here
    if index.shape[0] > 2:
        return index.sum() + 1
    return index.sum()
f(torch.tensor([1., 0, 1, 1]))
"""


@pytest.mark.slow
def test_a_check_lets_a_condition_on_data_compile(ctrace: Command) -> None:
    ctrace.write("script.py", HEAD + CHECKED)
    failed = ctrace("shapes", "script.py", "--json")
    assert failed.code == 3
    (mark,) = failed.report["marks"]
    assert mark["line"] == "torch._check(index.shape[0] > 2)"
    ctrace.write("script.py", HEAD + CHECKED.replace("# here", mark["line"]))
    result = ctrace("shapes", "script.py", "--json")
    assert result.code == 0
    assert result.report["marks"] == []


FIXED = """\
@torch.compile(backend="eager")
def f(x):
    out = 0
    for i in range(x.shape[0]):
        out = out + x[i] * i
    return out
for n in (2, 3, 4):
    x = torch.randn(n, 3)
    # here
    f(x)
"""


@pytest.mark.slow
def test_marking_a_specialized_size_is_not_suggested(ctrace: Command) -> None:
    ctrace.write("script.py", HEAD + FIXED)
    report = ctrace("shapes", "script.py", "--json").report
    assert [mark["line"] for mark in report["marks"]] == [None]
    assert "raises ConstraintViolationError until line 5 changes" in report["marks"][0]["note"]
    ctrace.write("script.py", HEAD + FIXED.replace("# here", "torch._dynamo.mark_dynamic(x, 0)"))
    result = ctrace("explain", "script.py", "--json")
    assert result.code == 3
    assert result.report["error"]["type"] == "ConstraintViolationError"
    (because,) = result.report["error"]["because"]
    assert "x.size(0) is marked dynamic, but can only be 2. Line 5:" in because
