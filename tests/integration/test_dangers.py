"""Silent dangers found and proven in real runs, without false alarms."""

from typing import Any

import pytest

from tests.integration.conftest import Command

HEAD = """\
import os, random, sys, time, torch
import settings

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.5)
    def helper(self, x):
        return x + 1
    def forward(self, x):
        %s
        return self.helper(self.second(self.first(x)))

model = Net()
X = torch.randn(8, 4)
def inputs(): return (X.clone(),)
def other(self, x): return x * 5
def changed():
    %s
    return inputs()
scenarios = {"changed": changed}
"""

CASES = {
    "a variable set later": (
        "x = x * float(os.getenv('SCALE', '1'))", "os.environ.update(SCALE='2', OTHER='2')", "environment", "SCALE", 14,
    ),
    "a variable that is there": (
        "x = x * (2 if 'FLAG' in os.environ else 1)", "os.environ['FLAG'] = ''", "environment", "FLAG", 14,
    ),
    "a hook": (
        "pass", "model.first.register_forward_hook(lambda module, given, out: out * 2)", "hook", "model.first (forward)", 22,
    ),
    "a method": ("pass", "Net.helper = other", "method", "Net.helper", 20),
    "a global set later": ("x = x * getattr(settings, 'late', 1)", "settings.late = 3", "global", "settings.late", 14),
    "a switch of Python's": (
        "x = x * (sys.getrecursionlimit() % 7)", "sys.setrecursionlimit(1005)", "torch_switch", "sys.getrecursionlimit()",
        None,
    ),
}  # fmt: skip


def explained(ctrace: Command, forward: str, change: str, *words: str) -> dict[str, Any]:
    ctrace.write("settings.py", "n = 0\n")
    ctrace.write("model.py", HEAD % (forward, change))
    result = ctrace("explain", "model.py", "--json", "--backend", "eager", *words)
    assert result.code == 0, result.err
    assert result.report["problems"] == []
    return result.report


QUICK = {"a variable set later"}


@pytest.mark.long
@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_the_changed_state_is_named_and_proven(case: str, ctrace: Command) -> None:
    forward, change, kind, subject, line = CASES[case]
    report = explained(ctrace, forward, change)
    (danger,) = report["dangers"]
    assert (danger["kind"], danger["subject"], danger["line"]) == (kind, subject, line)
    assert (danger["scenario"], danger["call"], danger["proven"]) == ("changed", 0, True)
    assert danger["fix"]
    assert report["verdict"] == "compiled"


def test_a_backward_hook_changes_gradients(ctrace: Command) -> None:
    change = "model.second.register_full_backward_hook(lambda module, into, out: (into[0] * 2,))"
    (danger,) = explained(ctrace, "pass", change, "--train")["dangers"]
    assert (danger["kind"], danger["subject"], danger["proven"]) == ("hook", "model.second (backward)", True)
    assert danger["difference"].startswith("gradients")


@pytest.mark.long
@pytest.mark.parametrize(
    ("forward", "change"),
    [
        ("self.n = getattr(self, 'n', 0) + 1; x = self.drop(self.norm(x)) * self.n", "pass"),
        ("settings.n += 1; x = x * settings.n", "settings.n = 5"),
        pytest.param("x = x * random.random()", "random.seed(3)", marks=pytest.mark.slow),
        pytest.param("x.add_(1)", "model.first.weight.data.fill_(1)", marks=pytest.mark.slow),
    ],
    ids=["counter, dropout, statistics", "a global counter", "Python's random numbers", "input changed in place"],
)
def test_a_model_with_its_own_state_is_no_danger(forward: str, change: str, ctrace: Command) -> None:
    report = explained(ctrace, forward, change)
    assert report["dangers"] == []
    assert [(each["compared"], each["not_compared"]) for each in report["scenarios"]] == [(2, None)] * 2


@pytest.mark.slow
def test_a_nondeterministic_model_is_not_compared(ctrace: Command) -> None:
    report = explained(ctrace, "x = x * (time.perf_counter_ns() % 1000003)", "pass")
    assert report["dangers"] == []
    assert {each["not_compared"] for each in report["scenarios"]} == {
        "eager is not deterministic here (time.perf_counter_ns at model.py:14)"
    }


def test_numpys_random_numbers_and_returned_parameters_are_no_danger(ctrace: Command) -> None:
    forward = "import numpy; return self.first.weight, self.first(x) * torch.from_numpy(numpy.random.rand(4)).float()"
    report = explained(ctrace, forward, "pass")
    assert report["dangers"] == []
    assert {each["not_compared"] for each in report["scenarios"]} == {
        "the call draws random numbers (numpy.random.rand at model.py:14), and compiled code may draw others"
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("x = x * (2 if torch.compiler.is_compiling() else 1)", "asks whether it is being compiled"),
        ("x = x * torch.empty(4)", "torch.empty"),
        ("for name in {'a', 'bb', 'ccc'}: x = x * len(name) + 1", None),
        ("x = x * (1 + next(settings.n) % 2)", "settings.n, which ctrace cannot restore"),
    ],
)
def test_what_may_differ_without_the_compiler_is_no_danger(forward: str, reason: str | None, ctrace: Command) -> None:
    report = explained(ctrace, forward, "pass") if "settings" not in forward else counted(ctrace, forward)
    assert report["dangers"] == []
    if reason is not None:
        assert any(reason in (each["not_compared"] or "") for each in report["scenarios"])


def counted(ctrace: Command, forward: str) -> dict[str, Any]:
    """Explain a model that draws from an iterator of another module."""
    ctrace.write("settings.py", "import itertools\nn = itertools.count()\n")
    ctrace.write("model.py", HEAD % (forward, "pass"))
    report: dict[str, Any] = ctrace("explain", "model.py", "--json", "--backend", "eager").report
    return report
