"""`ctrace accuracy` in real processes: the right line and kernel, and nothing where nothing is wrong."""

import pytest

from tests.integration.conftest import Command

pytestmark = pytest.mark.integration

MODEL = """\
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        h = self.linear(x)
        h = h * 0.7
        h = torch.relu(h)
        h = self.norm(h)
        return torch.softmax(h, -1)

model = Model()

def inputs():
    return (torch.randn(8, 16),)
"""
RELU = "import torch._inductor.config as config\nconfig.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'\n"
PASS = """\
import torch._inductor.config as config
from torch._inductor.custom_graph_pass import CustomGraphPass

class Wrong(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.nodes:
            if node.target is torch.ops.aten.mul.Tensor and node.args[1] == 0.7:
                node.args = (node.args[0], 0.8)

    def uuid(self):
        return b"wrong"

config.{setting} = Wrong()
"""


def test_a_wrong_operation_is_named_inside_its_fused_kernel(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL + RELU)
    result = ctrace("accuracy", "model.py", "--train", "--json", "--fail-on", "culprit")
    assert result.code == 1, result.err
    culprits = result.report["culprits"]
    assert "forward" in {each["stage"] for each in culprits}
    assert {(each["kind"], each["line"], *each["ops"]) for each in culprits} == {("kernel", 11, "aten.relu")}
    assert all("relu" in each["name"] for each in culprits)
    assert all(each["error"] == pytest.approx(1.0, abs=1e-4) and each["eager_error"] < 1e-6 for each in culprits)
    assert all(each["remedy_error"] < 1e-4 for each in culprits)
    assert culprits[0]["reason"] == "Inductor's code for aten.relu"
    assert result.report["equal"] is False
    assert result.report["compiled_runs"] <= 3


def test_nothing_is_wrong_in_a_healthy_model(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.replace("torch.softmax(h, -1)", "torch.tanh(h)"))
    result = ctrace("accuracy", "model.py", "--train", "--vary", "0=4", "--promises", "--json")
    assert result.code == 0, result.err
    report = result.report
    assert (report["equal"], report["culprits"], report["not_compared"]) == (True, [], [])
    assert report["compared"] > 10
    assert report["promises"]["run_to_run"] is True


@pytest.mark.parametrize(
    ("setting", "kind"), [("post_grad_custom_post_pass", "pass"), ("joint_custom_post_pass", "decomposition")]
)
def test_a_wrong_pass_is_named(ctrace: Command, setting: str, kind: str) -> None:
    ctrace.write("model.py", MODEL + PASS.format(setting=setting))
    result = ctrace("accuracy", "model.py", "--json")
    assert result.code == 0, result.err
    (found,) = result.report["culprits"]
    assert (found["kind"], found["line"]) == (kind, 10)


def test_the_first_nan_has_its_line(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.replace("torch.relu(h)", "torch.log(h)"))
    result = ctrace("accuracy", "model.py", "--json")
    found = result.report["first_nonfinite"]
    assert (found["line"], found["op"], found["in_eager"]) == (11, "aten.log", True)
    assert result.report["culprits"] == []


def test_a_nan_of_one_scenario_outlives_a_finite_one(ctrace: Command) -> None:
    text = MODEL.replace("torch.relu(h)", "torch.log(h.abs() * 0 + x[:, :1])")
    ctrace.write("model.py", text + 'scenarios = {"positive": lambda: (torch.ones(8, 16),)}\n')
    found = ctrace("accuracy", "model.py", "--json").report["first_nonfinite"]
    assert (found["op"], found["in_eager"]) == ("aten.log", True)


def test_a_lost_rounding_counts_against_eager_only(ctrace: Command) -> None:
    text = MODEL.replace("torch.relu(h)", "torch.sigmoid(h) * x").replace("Linear(16, 16)", "Linear(16, 16).bfloat16()")
    lines = text.replace("self.norm(h)", "h + 0.25").replace("torch.randn(8, 16)", "torch.randn(8, 16).bfloat16()")
    ctrace.write("model.py", lines.replace("torch.softmax(h, -1)", "h"))
    assert ctrace("accuracy", "model.py", "--json").report["culprits"] == []
    (found,) = ctrace("accuracy", "model.py", "--json", "--against", "eager").report["culprits"]
    assert found["against"] == "eager"
    assert found["line"] in (10, 11)


def test_random_numbers_are_not_compared(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.replace("torch.relu(h)", "torch.nn.functional.dropout(h, 0.5)"))
    report = ctrace("accuracy", "model.py", "--json").report
    assert (report["equal"], report["culprits"]) == (None, [])
    assert "draws random numbers" in report["not_compared"][0]["why"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("accuracy", "program.py"), "program.py is a program"),
        (("accuracy",), "no model to compare"),
        (("accuracy", "model.py", "--mode", "fastest"), "--mode fastest: not known to torch.compile"),
    ],
)
def test_a_wrong_command_line_is_two_lines(ctrace: Command, words: tuple[str, ...], says: str) -> None:
    ctrace.write("model.py", MODEL)
    ctrace.write("program.py", "import torch\ntorch.compile(torch.sin)(torch.ones(3))\n")
    result = ctrace(*words)
    assert result.code == 2
    assert says in result.err


IN_PLACE = """\
import torch

def model(x, z):
    y = x.clone()
    y[1:3] = 2.5
    h = torch.tanh(y) * 2
    z.index_put_((torch.tensor([0, 2]),), h[:2] * 3)
    z.add_(1)
    x[0] = h[1] + z[0]
    return h, z.sum()

def inputs():
    return torch.randn(4, 6), torch.randn(4, 6)
"""


def test_in_place_updates_of_a_healthy_model_are_right(ctrace: Command) -> None:
    ctrace.write("model.py", IN_PLACE)
    report = ctrace("accuracy", "model.py", "--json").report
    assert (report["equal"], report["culprits"], report["not_compared"]) == (True, [], [])
    assert report["compared"] >= 4


def test_a_lost_write_to_an_input_is_named(ctrace: Command) -> None:
    lost = PASS.replace("aten.mul.Tensor and node.args[1] == 0.7", "aten.copy_.default")
    lost = lost.replace("node.args = (node.args[0], 0.8)", "node.args = (node.args[0], node.args[0])")
    model = "import torch\n\ndef model(x, y):\n    x.add_(y)\n    return y * 2\n\n"
    inputs = "def inputs():\n    return torch.randn(4, 6), torch.randn(4, 6)\n"
    ctrace.write("model.py", model + inputs + lost.format(setting="post_grad_custom_post_pass"))
    report = ctrace("accuracy", "model.py", "--json").report
    assert {(each["kind"], each["line"]) for each in report["culprits"]} == {("pass", 4)}
    assert (report["equal"], report["result"]) == (False, "wrong")


def test_a_write_that_a_decomposition_loses_is_named(ctrace: Command) -> None:
    """torch 2.13 gives the result of dropout in evaluation memory of its own; eager returns the input itself."""
    model = (
        "import torch\n\ndef model(x):\n    y = torch.nn.functional.dropout(x, 0.5, training=False)\n    y.add_(1)\n"
    )
    ctrace.write("model.py", model + "    return y * 2\n\ndef inputs():\n    return (torch.ones(3, 4),)\n")
    (found,) = ctrace("accuracy", "model.py", "--json").report["culprits"]
    assert (found["kind"], found["line"]) == ("decomposition", 5)
