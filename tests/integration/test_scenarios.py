"""`--vary` and `--provoke` in real runs."""

import pytest

from tests.integration.conftest import Command

MODEL = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.5)
    def forward(self, x, table):
        if x.shape[1] == 6 and torch.compiler.is_compiling():
            raise ValueError("not six")
        return self.drop(self.fc(x)) + table

model = Net()
def inputs(): return (torch.randn(2, 3, 4), torch.zeros(4))
"""


@pytest.mark.long
def test_provoked_scenarios_and_their_outcomes(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("explain", "model.py", "--json", "--backend", "eager", "--provoke", "--fullgraph")
    assert result.code == 0, result.err
    scenarios = result.report["scenarios"]
    assert {each["kind"] for each in scenarios[1:]} == {"provoked"}
    assert {each["name"]: (each["outcome"], each["recompiles"]) for each in scenarios} == {
        "base": ("done", 0),
        "dim0=1": ("done", 1),
        "dim0=3": ("done", 1),
        "dim1=6": ("compile_failed", 0),
        "eval": ("done", 1),
        "no_grad": ("done", 1),
        "noncontiguous": ("done", 1),
        "dtype=float64": ("not_taken", 0),
    }
    assert "ValueError" in next(each["message"] for each in scenarios if each["name"] == "dim1=6")
    assert result.report["error"] is None
    shown = ctrace("explain").out
    assert "fails only when compiled" in shown
    assert "fails in eager too" in shown


@pytest.mark.long
def test_vary_more_than_sizes(ctrace: Command) -> None:
    ctrace.write("net.py", "import torch\ndef net(x, i): return torch.nn.functional.relu(x.T * 2), i\n")
    words = ("net.py:net", "--input", "float32[4,3]", "--input", "int64[5]", "--backend", "eager", "--json")
    varied = ("dtype=float64", "stride=transposed,noncontiguous", "grad=off,inference", "requires_grad=on", "0=2")
    report = ctrace("explain", *words, *(word for each in varied for word in ("--vary", each))).report
    assert [(each["name"], each["kind"], each["outcome"]) for each in report["scenarios"]] == [
        ("base", "base", "done"),
        *(
            (name, "vary", "done")
            for name in (
                "dtype=float64", "transposed", "noncontiguous", "no_grad", "inference_mode", "requires_grad=on", "dim0=2",
            )
        ),
    ]  # fmt: skip
    kinds = {cause["kind"] for each in report["recompiles"] for cause in each["causes"]}
    assert {"dtype", "stride", "grad_mode"} <= kinds
    assert report["dangers"] == []


FAILING = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
    def forward(self, x):
        if x.shape[0] == 3 and torch.compiler.is_compiling():
            raise ValueError("not three")
        return self.fc(x)

model = Net()
def inputs(): return (torch.randn(2, 4),)
scenarios = {
    "three": lambda: (torch.randn(3, 4),), "wide": lambda: (torch.randn(2, 5),), "last": lambda: (torch.randn(8, 4),)
}
"""


@pytest.mark.long
def test_a_failing_scenario_does_not_stop_the_others(ctrace: Command) -> None:
    ctrace.write("model.py", FAILING)
    result = ctrace("explain", "model.py", "--json", "--backend", "eager", "--fullgraph")
    assert result.code == 3, result.err
    assert {each["name"]: each["outcome"] for each in result.report["scenarios"]} == {
        "base": "done",
        "three": "compile_failed",
        "wide": "not_taken",
        "last": "done",
    }
    assert (result.report["error"]["phase"], result.report["error"]["line"]) == ("run", 9)


@pytest.mark.long
def test_a_copy_that_raises_does_not_fail_the_model(ctrace: Command) -> None:
    copied = FAILING.replace("def forward", "def __deepcopy__(self, memo):\n        return Copy()\n    def forward")
    copied = copied.replace(
        "model = Net()", "class Copy(Net):\n    def forward(self, x):\n        raise OSError\n\nmodel = Net()"
    )
    ctrace.write("model.py", copied.partition("scenarios =")[0])
    result = ctrace("explain", "model.py", "--json", "--backend", "eager")
    assert result.code == 0, result.err
    assert any("a copy of the model raises" in each["what"] for each in result.report["problems"])


UNLISTED = """\
import torch

class Odd(torch.nn.Module):
    def forward(self, x): return x

Odd.forward.__wrapped__ = Odd.forward  # inspect.unwrap raises

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.unused = Odd()
    def forward(self, x): return x + 1

model = Net()
def inputs(): return (torch.randn(3),)
"""


@pytest.mark.long
def test_modules_that_cannot_be_listed_are_a_problem_of_ctrace_alone(ctrace: Command) -> None:
    ctrace.write("model.py", UNLISTED)
    result = ctrace("explain", "model.py", "--json", "--backend", "eager")
    assert (result.code, result.report["error"], len(result.report["graphs"])) == (0, None, 1)
    assert any("the modules of the target could not be recorded" in each["what"] for each in result.report["problems"])
