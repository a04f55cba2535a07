"""Every line that `ctrace shapes` offers does what it is offered for, on the torch that is installed."""

import pytest

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


def _compilations(ctrace: Command, script: str, **environment: str) -> tuple[int, list[str]]:
    ctrace.write("script.py", HEAD + script)
    result = ctrace("shapes", "script.py", "--json", **environment)
    assert result.code == 0, result.err
    lines = [mark["line"] for mark in result.report["marks"] if mark["line"]]
    return sum(each["compilations"] for each in result.report["functions"]), lines


@pytest.mark.parametrize("name", CASES)
def test_marks_leave_one_graph(ctrace: Command, name: str) -> None:
    before, lines = _compilations(ctrace, CASES[name])
    offered = [line for line in lines if not line.startswith(SETTING)]
    assert before > 1
    assert offered
    after, _ = _compilations(ctrace, CASES[name].replace("# here", "; ".join(offered)))
    assert after == 1


@pytest.mark.parametrize("name", [*CASES, *ONLY_ENVIRONMENT])
def test_the_setting_leaves_fewer_graphs(ctrace: Command, name: str) -> None:
    script = {**CASES, **ONLY_ENVIRONMENT}[name]
    before, lines = _compilations(ctrace, script)
    settings = [line.removeprefix(SETTING).strip('"') for line in lines if line.startswith(SETTING)]
    if name == "zero and one":
        assert settings == []  # no setting makes 0 and 1 dynamic
        return
    assert len(settings) == 1
    after, _ = _compilations(ctrace, script, TORCH_COMPILE_DYNAMIC_SOURCES=settings[0])
    assert after == 1 < before


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


def test_what_is_fixed_is_not_to_be_marked(ctrace: Command) -> None:
    ctrace.write("script.py", HEAD + FIXED)
    report = ctrace("shapes", "script.py", "--json").report
    assert [mark["line"] for mark in report["marks"]] == [None]
    assert "raises ConstraintViolationError until line 5 changes" in report["marks"][0]["note"]
    ctrace.write("script.py", HEAD + FIXED.replace("# here", "torch._dynamo.mark_dynamic(x, 0)"))
    result = ctrace("explain", "script.py", "--json")
    assert result.code == 3
    assert result.report["error"]["type"] == "ConstraintViolationError"
    (because,) = result.report["error"]["because"]
    assert "x.size(0) is marked dynamic, and can only be 2. Line 5:" in because
