"""`ctrace breaks` on real models: the cost of a break, and whose code causes it."""

from pathlib import Path

import pytest
import torch

from tests.integration.conftest import Command

pytestmark = pytest.mark.integration

MODEL = """
import torch


@torch.compiler.disable(reason="asks a server")
def asked(x):
    return (x + 1).sin()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def rounds(self, x):
        for _ in range(3):
            x = x * 2
            print("round")
        return x

    def forward(self, x):
        x = self.linear(x)
        x = asked(x)
        if x.sum() > 0:
            x = x / 2
        return self.rounds(x).relu()


model = Net()
inputs = (torch.ones(2, 4),)
"""
LIBRARY = """
def chatty(x):
    print("in the library")
    return x + 1
"""
USER = """
import torch
from lib.part import chatty


def model(x):
    return chatty(x * 2)


inputs = (torch.ones(3),)
"""


@pytest.mark.long
def test_every_op_in_eager_is_charged_to_a_break(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    report = ctrace("breaks", "model.py", "--json", "--backend", "eager").report
    found = [(each["expression"], each["cost_with_skips"]["ops"]) for each in report["breaks"]]
    # Three products of the loop; a sum and a sine; the truth value of the comparison.
    assert found == [('print("round")', 3), ("asked(x)", 2), ("x.sum() > 0", 1)]
    assert report["coverage"]["ops"] - report["coverage"]["compiled"] == 6
    functions = {each["function"]: each for each in report["functions"]}
    assert (functions["Net.rounds"]["ops"], functions["Net.rounds"]["compiled"]) == (3, 0)
    assert (functions["asked"]["ops"], functions["asked"]["compiled"]) == (2, 0)
    assert [skip["rule"] for skip in report["skipped"]] == ["loop"]
    assert report["problems"] == []


@pytest.mark.long
def test_a_saved_run_shows_its_source_after_the_file_is_deleted(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    ctrace("explain", "model.py", "--backend", "eager")
    (ctrace.folder / "model.py").unlink()
    screen = " ".join(ctrace("breaks").out.split())
    assert 'print("round")' in screen
    assert "Its author says: asks a server." in screen
    assert "^^^^^^^^^^^" in screen


@pytest.mark.long
def test_a_projects_code_is_the_users_wherever_it_is(ctrace: Command) -> None:
    site = str(ctrace.folder / "lib" / "python3.11" / "site-packages")
    ctrace.write("lib/python3.11/site-packages/lib/part.py", LIBRARY)
    ctrace.write("model.py", USER)
    words = ("explain", "model.py", "--backend", "eager", "--json")
    assert [each["owner"] for each in ctrace(*words, PYTHONPATH=site).report["breaks"]] == ["library"]
    ctrace.write("pyproject.toml", '[tool.ctrace]\nowned = ["lib/python3.11/site-packages/lib"]\n')
    (owned,) = ctrace(*words, PYTHONPATH=site).report["breaks"]
    assert (owned["owner"], owned["line"]) == ("user", 3)


@pytest.mark.slow
def test_a_mode_that_ignores_compiled_code_adds_no_recompile(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    report = ctrace("explain", "model.py", "--json").report
    assert report["recompiles"] == []


FLOATS = """
import torch


def model(x, scale):
    return x * scale


inputs = (torch.ones(3), 1.0)
scenarios = {"half": lambda: (torch.ones(3), 0.5), "third": lambda: (torch.ones(3), 0.3)}
"""
TURNS = """
import itertools
import torch

turns = itertools.count(1)


def model(x, n):
    for _ in range(9):
        if (x.sum() - n).item() >= 0:
            break
        x = x + 1
    return x


def inputs():
    return torch.zeros(1), torch.tensor(next(turns))
"""


def test_a_float_that_a_graph_takes_as_a_tensor_is_no_op_of_the_user(ctrace: Command) -> None:
    ctrace.write("model.py", FLOATS)
    report = ctrace("explain", "model.py", "--json", "--fast").report
    assert report["coverage"] == {"ops": 3, "compiled": 3}


def test_both_counts_of_ops_are_of_one_call(ctrace: Command) -> None:
    """A loop that takes more turns in each call has no op in a graph."""
    ctrace.write("model.py", TURNS)
    report = ctrace("explain", "model.py", "--json", "--fast").report
    assert (report["verdict"], report["coverage"]["compiled"]) == ("not_compiled", 0)


@pytest.mark.long
def test_torch_behind_a_link_is_torch(ctrace: Command) -> None:
    """Frames have the path by which Python found torch, hooks that of its files."""
    packages = Path(torch.__file__).parent.parent
    (ctrace.folder / "link").symlink_to(packages)
    ctrace.write("model.py", "import torch\nmodel = torch.nn.ReLU()\ninputs = (torch.rand(2),)\n")
    linked = Command(ctrace.folder)("breaks", "model.py", PYTHONPATH=str(ctrace.folder / "link"))
    assert linked.code == 0, linked.err
    (log,) = (ctrace.folder / ".ctrace").rglob("trace.log")
    for folder in (ctrace.folder / "link", packages.resolve()):
        assert f'"{folder}/torch": "torch"' in log.read_text()
