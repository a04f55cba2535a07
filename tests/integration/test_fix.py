"""Repairs of real models: proved, applied and taken back."""

import subprocess
import time
from typing import Any

import pytest

from ctrace.inspector.features.fix.repairs.obligations import NAMES
from tests.integration.conftest import Command

pytestmark = pytest.mark.integration

BRANCH = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.linear(x)  # a comment that stays
        if h.sum() > 0:
            y = h * 2
        else:
            y = h * 3
        return y


model = Net()


def inputs():
    return (torch.randn(6, 4),)
"""
RANDOM = BRANCH.replace("import torch\n", "import os\n\nimport torch\n", 1).replace(
    "model = Net()", "model = Net()\nmodel.linear.weight.data.mul_(1 + os.urandom(1)[0] + os.urandom(1)[0] / 256)"
)
PROGRAM = """\
import torch


@torch.compile(backend="eager")
def f(x):
    s = x.abs().max().item()
    return x / s


f(torch.randn(8))
f(torch.randn(8))
"""


def fixed(ctrace: Command, text: str, *words: str) -> dict[str, Any]:
    ctrace.write("net.py", text)
    ran = ctrace("fix", "net.py", "--json", "--no-build", *words)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = ran.report
    assert_closed(found)
    return found


def assert_closed(found: dict[str, Any]) -> None:
    """Check what `proved` and `question` promise: every way to tell the programs apart is closed, or asked."""
    every = [*found["repairs"], *([found["combined"]] if found["combined"] is not None else [])]
    for each in (one for one in every if one["proved"]):
        assert [one["name"] for one in each["obligations"]] == list(NAMES)
        asked = [one for one in each["obligations"] if one["how"] == "question"]
        assert all(one["closed"] for one in each["obligations"] if one not in asked)
        if not each.get("question"):
            assert all(one["closed"] for one in asked)  # by --accept
    if found["combined"] is not None:
        assert {"obligations", "eager_slowdown"} <= found["combined"].keys()


def test_a_branch_is_repaired_applied_and_restored(ctrace: Command):
    found = fixed(ctrace, BRANCH, "--apply")
    (cause,) = [each for each in found["findings"] if each["kind"] == "tensor_branch"]
    best = found["repairs"][0]
    assert (best["proved"], best["finding"], best["kind"]) == (True, cause["id"], "source")
    assert {"both_sides", "outputs_equal", "gradients_equal", "compiled_equal", "finding_gone"} <= {
        each["name"] for each in best["checks"] if each["passed"]
    }
    assert found["combined"]["effect"]["breaks"] == [1, 0]
    assert found["advice"] == []  # in general terms, beside a patch that is proved
    changed = (ctrace.folder / "net.py").read_text()
    assert "torch.where" in changed
    assert "# a comment that stays" in changed
    assert ctrace("fix", "--undo").code == 0
    assert (ctrace.folder / "net.py").read_text() == BRANCH


@pytest.mark.long
def test_apply_uses_the_proof_that_just_ended(ctrace: Command):
    ctrace.write("net.py", BRANCH)
    words = ("fix", "net.py", "--no-build", "--only", "tensor_branch")
    assert ctrace(*words).code == 0
    began = time.monotonic()
    ran = ctrace(*words, "--apply")
    seconds = time.monotonic() - began
    assert "Uses the proof of " in ran.out
    assert "torch.where" in (ctrace.folder / "net.py").read_text()
    assert ctrace("fix", "--undo").code == 0
    ctrace.write("net.py", BRANCH.replace("h * 3", "h * 4"))
    began = time.monotonic()
    ran = ctrace(*words, "--apply")
    assert "Uses the proof of " not in ran.out
    assert "h * 4" in (ctrace.folder / "net.py").read_text()
    assert seconds < (time.monotonic() - began) / 2


@pytest.mark.long
def test_a_branch_on_a_random_number_draws_as_before(ctrace: Command):
    text = BRANCH.replace("h.sum() > 0", "torch.rand(()) < self.p").replace(
        "Linear(4, 4)", "Linear(4, 4)\n        self.p = 0.5"
    )
    found = fixed(ctrace, text, "--only", "random_branch")
    (best,) = [each for each in found["repairs"] if each["name"] == "random_branch"]
    assert best["proved"], best["why"]
    assert (best["question"], best["effect"]["breaks"]) == (None, [1, 0])


@pytest.mark.long
def test_what_explain_has_checked_is_no_unknown_finding(ctrace: Command):
    """No repair is offered where a side calls a function of the user's, which may do more than compute."""
    text = BRANCH.replace("h.sum() > 0", "h.abs().sum() >= 0").replace("h * 2", "twice(h)")
    found = fixed(ctrace, text.replace("class Net", "def twice(x):\n    return x * 2\n\n\nclass Net"))
    assert not any(each["proved"] for each in found["repairs"])
    (cause,) = found["findings"]
    (advice,) = [each for each in found["advice"] if cause["id"] in each["causes"]]
    assert (cause["kind"], advice["checked"], advice["effect"]["breaks"]) == ("tensor_branch", True, [1, 0])


@pytest.mark.long
def test_a_model_that_is_not_deterministic_proves_nothing(ctrace: Command):
    found = fixed(ctrace, RANDOM)
    assert "two eager runs with the same seeds differ" in found["unstable"]
    assert not any(each["proved"] for each in found["repairs"])
    assert found["combined"] is None


@pytest.mark.long
def test_the_order_of_a_set_of_strings_is_the_same_in_all_runs_of_a_proof(ctrace: Command):
    """Python draws it for each process; one that changes the environment is not forked (`trial_runs.py:_hashing`)."""
    sizes = "torch.tensor([float(len(each)) for each in {'sum', 'product', 'median', 'max'}])"
    text = BRANCH.replace("return y", f"return y + {sizes}")
    found = fixed(ctrace, f"import os\n\nos.environ['NET'] = '1'\n{text}")
    assert found["unstable"] is None
    assert any(each["proved"] for each in found["repairs"])


COPY = """\
import copy

import torch


class Jitter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, image):
        out = copy.deepcopy(image)
        scaled = out * self.gain
        return scaled.clamp(0, 1)


model = Jitter()
inputs = (torch.rand(2, 3, 8, 8),)
"""


@pytest.mark.long
def test_a_copy_of_what_another_module_computed_is_a_question(ctrace: Command):
    """`copy.deepcopy` refuses a tensor that is no leaf; `clone` does not, and cuts the gradient."""
    found = fixed(ctrace, COPY)
    (repair,) = [each for each in found["repairs"] if each["name"] == "clone_copy"]
    assert "Has no other module computed these inputs?" in repair["question"]
    assert found["combined"] is None


@pytest.mark.long
def test_a_program_is_repaired(ctrace: Command):
    found = fixed(ctrace, PROGRAM)
    assert any(each["proved"] and each["kind"] == "source" for each in found["repairs"])
    assert (ctrace.folder / "net.py").read_text() == PROGRAM


def test_a_budget_ends_the_search(ctrace: Command):
    found = fixed(ctrace, BRANCH, "--budget", "1s")
    assert found["budget_spent"] or found["combined"] is not None or found["unstable"]


TWICE_IN_A_LOOP = BRANCH[: BRANCH.index("        h = self.linear")] + """\
        for _ in range(3):
            x = self.linear(x)
            if x.sum() > 0:
                x = x + 1
            else:
                x = x - 1
            s = x.abs().max().item()
            x = x * s
        return x
""" + BRANCH[BRANCH.index("\n\nmodel =") :]  # fmt: skip
COPIES = "import copy\n\n" + BRANCH[: BRANCH.index("        h = self.linear")] + """\
        state = {"x": x, "h": self.linear(x).detach()}
        after = copy.deepcopy(state)
        after["x"] = after["x"] + 1
        y = copy.deepcopy(x)
        y.mul_(2)
        return after["x"] + after["h"] + y
""" + BRANCH[BRANCH.index("\n\nmodel =") :]  # fmt: skip
BACKWARD = """\
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        (scale,) = ctx.saved_tensors
        if float(scale) > 1:
            grad = grad.clamp(-1, 1)
        return grad * scale, None


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        return Scale.apply(self.linear(x), self.scale)


model = Net().eval()


def inputs():
    return (torch.randn(6, 4),)
"""


@pytest.mark.long
def test_a_repair_that_uncovers_the_next_break_is_proved_with_it(ctrace: Command):
    best = fixed(ctrace, TWICE_IN_A_LOOP)["repairs"][0]
    assert (best["proved"], best["name"]) == (True, "tensor_branch+tensor_scalar")
    assert best["effect"]["graphs"] == [0, 1]


@pytest.mark.long
def test_two_places_are_repaired_together_and_ask_about_expanded_inputs(ctrace: Command):
    best = fixed(ctrace, COPIES)["repairs"][0]
    assert (best["proved"], best["name"]) == (True, "clone_copy")
    assert best["question"].count("Does each element of the inputs always have memory of its own?") == 1
    assert {each["name"] for each in best["obligations"] if not each["closed"]} == {"identity", "exceptions"}
    assert best["patch"].count("\n+") == 3  # a header and two lines
    assert best["effect"]["breaks"][1] == 0


@pytest.mark.long
@pytest.mark.parametrize("words", [(), ("--inference",)])
def test_calls_without_gradients_are_a_choice(ctrace: Command, words: tuple[str, ...]):
    best = fixed(ctrace, BACKWARD, "--only", "no_grad", *words)["repairs"][0]
    assert (best["proved"], best["name"], bool(best["question"])) == (True, "no_grad", not words)


LIBRARY = """\
def scaled(x):
    if x.sum() > 0:
        return x * 2
    return x * 3
"""
USER_OF_LIBRARY = """\
import torch

import scaling


class Net(torch.nn.Module):
    def forward(self, x):
        return scaling.scaled(x) + 1


model = Net()


def inputs():
    return (torch.randn(6, 4),)
"""


@pytest.mark.long
def test_a_package_is_repaired_from_the_users_file(ctrace: Command, monkeypatch: pytest.MonkeyPatch):
    packages = ctrace.folder / "site-packages"
    packages.mkdir()
    (packages / "scaling.py").write_text(LIBRARY)
    monkeypatch.setenv("PYTHONPATH", str(packages), prepend=":")
    found = fixed(ctrace, USER_OF_LIBRARY, "--accept", "monkeypatch", "--apply")
    assert found["combined"]["effect"]["breaks"] == [1, 0]
    assert (packages / "scaling.py").read_text() == LIBRARY
    repaired = (ctrace.folder / "net.py").read_text()
    assert "torch.where" in repaired
    assert repaired.endswith(USER_OF_LIBRARY[USER_OF_LIBRARY.index("class Net") :])
    assert ctrace("explain", "net.py", "--json").report["verdict"] == "compiled"


def test_apply_refuses_an_uncommitted_file_before_it_searches(ctrace: Command):
    subprocess.run(["git", "init", "-q", str(ctrace.folder)], check=True)
    ctrace.write("net.py", BRANCH)
    ran = ctrace("fix", "net.py", "--apply", "--no-build")
    assert ran.code == 2
    assert "REPAIRED" not in ran.out
    assert "observing" not in ran.err
    assert "net.py is not in git yet" in ran.err


INDEXED = """\
import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sigmas", torch.linspace(1.0, 0.1, 8))

    def forward(self, x, step):
        return x - self.sigmas[step].item() * torch.tanh(x)


model = Sampler()


def inputs():
    return torch.randn(2, 3), torch.tensor(2)
"""


@pytest.mark.long
def test_what_inductor_refuses_is_not_proved(ctrace: Command):
    """Dynamo takes the number of an element whose index is a tensor; each call fails in AOTAutograd then."""
    found = fixed(ctrace, INDEXED, "--only", "capture_scalar_outputs")
    (repair,) = found["repairs"]
    assert not repair["proved"]
    assert repair["why"].startswith("the changed target fails with Inductor: ")
    compiled = next(each for each in repair["obligations"] if each["name"] == "compiled")
    assert not compiled["closed"]
    assert found["combined"] is None
