"""The fixture `ctrace` in a user's tests."""

import pytest

from tests.support.places import ROOT

pytest_plugins = "pytester"


MODELS = """
import torch
from torch import nn

class Good(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).relu()

class Cut(Good):
    def forward(self, x):
        y = self.linear(x)
        print("norm", y.norm())
        return y.relu()

class Wrong(nn.Module):
    def forward(self, x):
        return x @ torch.ones(3, 3)

X = torch.rand(2, 8)
"""
NUMBERS = """
import pytest, torch
from models import *

def test_good(ctrace):
    torch.compile(Good(), backend="eager")(X)
    model = Good()
    session = ctrace.check(model, X, graph_breaks=0, recompiles=0, graphs=1, coverage=100, train=True)
    assert [len(graph.id) for graph in session.graphs] == [3]
    assert model.linear.weight.grad is None

def test_cut(ctrace):
    ctrace.check(Cut(), (X,), graph_breaks=0)

def test_sizes(ctrace):
    ctrace.check(Good(), [torch.rand(n, 8) for n in (2, 3, 1)], recompiles=0)

def test_wrong(ctrace):
    ctrace.check(Wrong(), {"x": X})

def test_nothing(ctrace):
    ctrace.check(lambda x: x, X, skipped=1)

def test_compiled(ctrace):
    ctrace.check(torch.compile(Good()), X)

def test_inputs(ctrace):
    ctrace.check(Good(), 3)
"""
BY_LOCK = """
import pytest
from models import *

@pytest.mark.parametrize("train", [True, False])
def test_cut(ctrace, train):
    ctrace.check(Cut(), X, train=train)
    ctrace.check(Good(), X)

def test_good(ctrace):
    ctrace.check(Good(), X, name="good")
"""


@pytest.fixture
def tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv(
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"
    )  # otherwise the plugin is loaded twice if ctrace is installed
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makeini("[pytest]\naddopts = -p ctrace.cli.gate.pytest_plugin -p no:cacheprovider\npythonpath = .")
    pytester.makepyfile(models=MODELS)
    return pytester


@pytest.mark.long
def test_numbers(tests: pytest.Pytester) -> None:
    tests.makepyfile(test_numbers=NUMBERS)
    result = tests.runpytest_subprocess("-rf")
    result.assert_outcomes(passed=1, failed=6)
    result.stdout.fnmatch_lines(
        [
            "WORSE  test_numbers.py::test_cut",
            "torch *2 graphs*1 graph break*",
            "1. graph break (GB0059 models.py::Cut.forward)*",
            "   models.py:15",
            '     print("norm", y.norm())',
            "   → models.py:15: remove `print*",
        ]
    )
    result.stdout.fnmatch_lines(["WORSE  test_numbers.py::test_sizes", "*", "1. *models.py::Good.forward*"])
    # In either order: pytest shows the last frame at length or in one line, as its version and the frames before it have it.
    result.stdout.fnmatch_lines(["E       RuntimeError: *mat1 and mat2*"])
    result.stdout.fnmatch_lines(["models.py:20: *"])
    result.stdout.fnmatch_lines(["NOT TRUSTED  test_numbers.py::test_nothing", "*torch.compile compiled nothing"])
    result.stdout.fnmatch_lines(["the model is already compiled", "→ pass the original model*"])
    result.stdout.fnmatch_lines(["inputs have type int", "→ pass a tuple of arguments*"])
    result.stdout.no_fnmatch_line("*torch.__trace*")  # pytest's own log handler got no records of ctrace
    assert not (tests.path / "ctrace.lock").exists()


def test_the_lock_decides_without_numbers(tests: pytest.Pytester) -> None:
    tests.makepyfile(test_net=BY_LOCK)
    wrote = tests.runpytest_subprocess("-p", "xdist", "-n", "2", "--ctrace-update")
    wrote.assert_outcomes(passed=3)
    wrote.stdout.fnmatch_lines(["ctrace: wrote *ctrace.lock (5 checks)"])
    lock = (tests.path / "ctrace.lock").read_text()
    for name in ("test_cut[[]True]", "test_cut[[]False]#2", "test_good#good"):
        assert f'"model": "test_net.py::{name.replace("[[]", "[")}"' in lock

    (tests.path / "models.py").write_text(MODELS.replace("return y.relu()", "return y.relu() * y.sum().item()"))
    extra = "\ndef test_new(ctrace):\n    ctrace.check(Good(), X)\n"
    (tests.path / "test_net.py").write_text(BY_LOCK + extra)
    result = tests.runpytest_subprocess("-rf")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["1. new graph break (+1 GB0124 models.py::Cut.forward)*"])
    result.stdout.fnmatch_lines(["If this is intended, record the current state in ctrace.lock: pytest*"])
    result.stdout.fnmatch_lines(["ctrace: 1 check is not in the lock; the limits are: no graph break*"])
    assert (tests.path / "ctrace.lock").read_text() == lock
