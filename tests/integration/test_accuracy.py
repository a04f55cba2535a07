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


@pytest.mark.long
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


@pytest.mark.long
def test_nothing_is_wrong_in_a_healthy_model(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.replace("torch.softmax(h, -1)", "torch.tanh(h)"))
    result = ctrace("accuracy", "model.py", "--train", "--vary", "0=4", "--promises", "--json")
    assert result.code == 0, result.err
    report = result.report
    assert (report["equal"], report["culprits"], report["not_compared"]) == (True, [], [])
    assert report["compared"] > 10
    assert report["promises"]["run_to_run"] is True


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "kind"), [("post_grad_custom_post_pass", "pass"), ("joint_custom_post_pass", "decomposition")]
)
def test_a_wrong_pass_is_named(ctrace: Command, setting: str, kind: str) -> None:
    ctrace.write("model.py", MODEL + PASS.format(setting=setting))
    result = ctrace("accuracy", "model.py", "--json")
    assert result.code == 0, result.err
    (found,) = result.report["culprits"]
    assert (found["kind"], found["line"]) == (kind, 10)
    assert found["reason"] == f"the pass that `{setting}` is set to"
    assert found["remedy"] == f"torch._inductor.config.{setting} = None"
    assert found["remedy_error"] < 1e-5


DECOMPOSITION = """\
import torch
from torch._inductor.decomposition import decompositions

def softplus(x, beta=1, threshold=20):
    return torch.where(x > 1, x, torch.log1p(torch.exp(x)))

decompositions[torch.ops.aten.softplus.default] = softplus

@torch.compile
def gain(x):
    h = x * 2
    h = torch.nn.functional.softplus(h)
    return h.tanh()

gain(torch.randn(8, 16, requires_grad=True)).sum().backward()
"""


@pytest.mark.long
@pytest.mark.parametrize("ci", ["", "true"])
def test_a_decomposition_of_the_user_is_the_reason(ctrace: Command, ci: str) -> None:
    ctrace.write("train.py", DECOMPOSITION)
    (found,) = ctrace("accuracy", "train.py", "--json", CI=ci).report[
        "culprits"
    ]  # torch refuses some code where it is set
    assert (found["kind"], found["line"]) == ("decomposition", 12)
    assert found["reason"] == "the decomposition of aten.softplus in train.py:4"
    assert found["remedy"] == "torch._inductor.decomposition.decompositions.pop(torch.ops.aten.softplus.default)"
    assert found["remedy_error"] < 1e-5


@pytest.mark.long
def test_a_decomposition_that_makes_a_nan_in_the_backward_is_the_reason(ctrace: Command) -> None:
    lines = DECOMPOSITION.partition("@torch.compile")[0] + MODEL.replace("import torch\n", "")
    wrong = "def softplus(grad, x, beta, threshold):\n    z = torch.exp(x * 999)\n    return grad * z / (z + 1)\n"
    lines = lines.replace("aten.softplus.default", "aten.softplus_backward.default")
    lines = lines.replace(lines[lines.index("def softplus") : lines.index("\ndecompositions")], wrong)
    lines = lines.replace(
        "torch.softmax(h, -1)", "torch.tanh(h)"
    )  # gradients of softmax's sum are nothing but rounding
    ctrace.write("model.py", lines.replace("torch.relu(h)", "torch.nn.functional.softplus(h)"))
    report = ctrace("accuracy", "model.py", "--train", "--json").report
    (found,) = report["culprits"]
    assert (found["kind"], found["stage"], found["error"]) == ("decomposition", "backward", None)
    assert found["source"] == "h = torch.nn.functional.softplus(h)"
    assert found["reason"] == "the decomposition of aten.softplus_backward in model.py:4"
    assert found["remedy_error"] < 1e-5
    first = report["first_nonfinite"]
    assert (first["line"], first["op"], first["in_eager"]) == (found["line"], "aten.exp", False)


SHARING = """\
import torch

class Shift(torch.nn.Module):
    def forward(self, x, y):
        x.mul_(0.5)
        return (x + y).relu()

model = Shift()

def inputs():
    memory = torch.ones(16)
    return memory[:8], memory[8:]

def overlapping():
    memory = torch.ones(16)
    return memory[:8], memory[2:10]

scenarios = {"overlapping": overlapping}
"""


def test_a_graph_that_was_compiled_for_inputs_apart_is_wrong_for_overlapping_ones(ctrace: Command) -> None:
    ctrace.write("model.py", SHARING)
    report = ctrace("accuracy", "model.py", "--json").report
    assert (report["equal"], report["result"], report["not_compared"]) == (False, "wrong", [])
    (found,) = report["culprits"]
    assert (found["kind"], found["name"], found["line"], found["error"]) == ("graph", "Dynamo's guards", 6, 0.5)


def test_inputs_of_the_first_call_may_overlap(ctrace: Command) -> None:
    lines = SHARING.partition("scenarios")[0].replace("inputs():", "apart():").replace("overlapping():", "inputs():")
    ctrace.write("model.py", lines)
    report = ctrace("accuracy", "model.py", "--json").report
    assert (report["culprits"], report["equal"], report["not_compared"]) == ([], True, [])


def test_a_wrong_pass_is_named_where_inputs_overlap(ctrace: Command) -> None:
    lines = SHARING.partition("scenarios")[0].replace("inputs():", "apart():").replace("overlapping():", "inputs():")
    lines = lines.replace("x.mul_(0.5)", "x.mul_(0.7)")
    ctrace.write("model.py", lines + PASS.format(setting="post_grad_custom_post_pass"))
    report = ctrace("accuracy", "model.py", "--json").report
    assert (report["equal"], report["not_compared"]) == (False, [])
    (found,) = report["culprits"]
    assert (found["kind"], found["line"]) == ("pass", 5)
    assert found["reason"] == "the pass that `post_grad_custom_post_pass` is set to"


VIEWS = """\
import torch

def model(x, y):
    y.t_()
    y.mul_(2)
    return x.sum()

def inputs():
    memory = torch.randn(24)
    return memory[3:7], memory.view(4, 6)
"""


def test_overlapping_inputs_are_views_of_one_tensor_in_each_call(ctrace: Command) -> None:
    ctrace.write("model.py", VIEWS)
    result = ctrace("accuracy", "model.py", "--dynamic", "--json")
    assert (result.code, result.report["equal"]) == (0, True), result.err


WRITING = """\
import torch

@torch.library.custom_op("mine::half", mutates_args=("out",))
def half(out: torch.Tensor) -> None:
    out.mul_(0.5)

@torch.library.custom_op("mine::added", mutates_args=("out",))
def added(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    out.mul_(0.5)
    return x + out

@added.register_fake
def _(x, out):
    return torch.empty_like(x)

def model(x, y, z):
    h = x.relu()
    torch.ops.mine.half(h)
    part = h[:2]
    torch.ops.mine.half(part)
    torch.ops.mine.half(y[:2])
    before = y[1:] * 3
    torch.ops.mine.half(y[2:, 1:3])
    r = torch.ops.mine.added(z[2:], z[:2])
    return part + 1, h[1:], before, y[:, 2], r[1:] * 2, r[:1, 2:]

def inputs():
    return torch.randn(4, 8), torch.randn(4, 8), torch.randn(4, 8)
"""


def test_operators_that_write_to_a_part_of_a_value_are_compared(ctrace: Command) -> None:
    ctrace.write("model.py", WRITING)
    result = ctrace("accuracy", "model.py", "--json")
    assert result.code == 0, result.err
    assert (result.report["equal"], result.report["not_compared"]) == (True, [])
    assert result.report["compared"] >= 8


OPTIMIZER = """\
import torch
import torch._inductor.config as config
from torch._inductor.custom_graph_pass import CustomGraphPass

class Wrong(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.nodes:
            if node.kwargs.get("alpha") == -0.7:
                node.kwargs = {"alpha": -0.8}

    def uuid(self):
        return b"wrong"

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.7)

@torch.compile
def step():
    optimizer.step()

for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    step()
"""


@pytest.mark.long
@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_compiled_optimizer_is_compared_with_the_parameters_that_it_writes_to(
    ctrace: Command, *, is_wrong: bool
) -> None:
    setting = "config.post_grad_custom_post_pass = Wrong()\n" if is_wrong else ""
    ctrace.write("train.py", OPTIMIZER.replace("model = ", f"{setting}model = "))
    report = ctrace("accuracy", "train.py", "--json").report
    assert (report["equal"], report["not_compared"]) == (not is_wrong, [])
    reasons = [(each["kind"], each["ops"], each["reason"]) for each in report["culprits"]]
    why = "the pass that `post_grad_custom_post_pass` is set to"
    assert reasons == ([("pass", ["aten.add"], why)] if is_wrong else [])


INTERPOLATED = """\
import torch

def model(x):
    h = x.sin()
    return torch.nn.functional.interpolate(h, scale_factor=(1.3, 1.5), mode="nearest")

def inputs():
    return (torch.arange(24.0).reshape(1, 2, 3, 4),)
"""


@pytest.mark.long
def test_a_wrong_decomposition_is_a_program(ctrace: Command) -> None:
    """One of torch 2.13: pytorch issue 198201."""
    ctrace.write("model.py", INTERPOLATED)
    result = ctrace("repro", "model.py", "--culprit", "-o", "repro.py", timeout=900)
    text = (ctrace.folder / "repro.py").read_text()
    assert "torch.nn.functional.interpolate(" in text
    assert "sin(" not in text
    assert result.code == 0, result.err


UNDECLARED = """\
import torch

@torch.library.custom_op("ours::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    x.div_(2)
    return x * 1.0

@halve.register_fake
def _(x):
    return torch.empty_like(x)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        h = torch.tanh(x)
        halved = torch.ops.ours.halve(h)
        late = h * 0.5
        return self.linear(late) + halved

model = Model().requires_grad_(False)

def inputs():
    return (torch.randn(8, 16),)
"""


def test_a_write_that_a_schema_leaves_out_is_the_reason(ctrace: Command) -> None:
    ctrace.write("model.py", UNDECLARED)
    (found,) = ctrace("accuracy", "model.py", "--json").report["culprits"]
    assert (found["line"], found["ops"], found["remedy"]) == (19, ["ours.halve"], None)
    assert found["reason"].startswith("ours.halve writes to `x`, which `mutates_args` leaves out")


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


@pytest.mark.long
def test_a_lost_rounding_counts_against_eager_only(ctrace: Command) -> None:
    text = MODEL.replace("torch.relu(h)", "torch.sigmoid(h) * x").replace("Linear(16, 16)", "Linear(16, 16).bfloat16()")
    lines = text.replace("self.norm(h)", "h + 0.25").replace("torch.randn(8, 16)", "torch.randn(8, 16).bfloat16()")
    ctrace.write("model.py", lines.replace("torch.softmax(h, -1)", "h"))
    assert ctrace("accuracy", "model.py", "--json").report["culprits"] == []
    (found,) = ctrace("accuracy", "model.py", "--json", "--against", "eager").report["culprits"]
    assert found["against"] == "eager"
    assert found["line"] in (10, 11)


LOST = """\
import torch

class Model(torch.nn.Module):
    def forward(self, x, y):
        h = {operation}
        h = torch.relu(h)
        return h + y

model = Model()

def inputs():
    return tuple(torch.randn(2, 32, 64).bfloat16().unbind())
"""


@pytest.mark.parametrize(("operation", "name"), [("x * y", "aten.mul"), ("torch.nn.functional.silu(x)", "aten.silu")])
def test_a_lost_rounding_is_that_of_the_first_operation_that_rounds(ctrace: Command, operation: str, name: str) -> None:
    ctrace.write("model.py", LOST.format(operation=operation))
    (found,) = ctrace("accuracy", "model.py", "--json", "--against", "eager").report["culprits"]
    assert (found["line"], found["ops"]) == (5, [name])
    assert found["reason"] == f"the fused kernel keeps {name} in float32, where eager rounds it to bfloat16"
    assert (found["remedy"], found["remedy_error"]) == ("torch._inductor.config.emulate_precision_casts = True", 0.0)


KEPT = """\
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(8, 16))

    def forward(self, x):
        h = torch.relu(x)
        self.kept.copy_(h.mul(0.5))
        return h.sum()

model = Model()

def inputs():
    return (torch.randn(8, 16),)
"""


@pytest.mark.long
def test_the_operation_is_named_whose_value_a_kernel_writes_into_a_buffer(ctrace: Command) -> None:
    ctrace.write("model.py", KEPT + RELU)
    result = ctrace("accuracy", "model.py", "--json")
    assert {(each["line"], *each["ops"]) for each in result.report["culprits"]} == {(9, "aten.relu")}


def test_random_numbers_are_not_compared(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.replace("torch.relu(h)", "torch.nn.functional.dropout(h, 0.5)"))
    report = ctrace("accuracy", "model.py", "--json").report
    assert (report["equal"], report["culprits"]) == (None, [])
    assert "draws random numbers" in report["not_compared"][0]["why"]


LATE = """\
import torch
import torch._inductor.lowering as lowering

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 1)

    def forward(self, x):
        h = self.first(x)
        h = torch.relu(h)
        return self.second(h)

model = Model()

def inputs():
    return (torch.randn(8, 16),)

def loss(output):
    return (output - 40).square().mean()

def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.005)
"""
CLAMPED = """
relu = torch.ops.aten.relu.default
whole, clamp = lowering.lowerings[relu], lowering.lowerings[torch.ops.aten.clamp_max.default]
lowering.lowerings[relu] = lambda x: clamp(whole(x), 4.0)
"""


@pytest.mark.long
def test_a_kernel_that_is_wrong_only_after_some_steps_is_named(ctrace: Command) -> None:
    """Values pass the wrong bound only once the model has learned to make large ones."""
    ctrace.write("model.py", LATE + CLAMPED)
    result = ctrace("accuracy", "model.py", "--steps", "12", "--json")
    assert result.code == 0, result.err
    report = result.report
    parted = [each["step"] for each in report["steps"] if each["parted"]]
    assert parted[0] > 1
    assert report["steps"][parted[0] - 1]["parameter"] in ("first.weight", "first.bias", "second.weight", "second.bias")
    assert {(each["line"], *each["ops"], each["step"]) for each in report["culprits"]} == {(11, "aten.relu", parted[0])}
    assert (report["equal"], report["training"]["parted_by"]) == (False, "compiler")
    assert report["training"]["optimizer"] == "`optimizer` of the file (SGD)"


CHAOS = """\
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        for _ in range(8):
            x = torch.sin(3 * self.layer(x))
        return x.square().mean()

model = Model()

def inputs():
    return (torch.randn(4, 8),)

def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""


@pytest.mark.long
def test_chaos_has_no_culprit(ctrace: Command) -> None:
    ctrace.write("model.py", CHAOS)
    result = ctrace("accuracy", "model.py", "--steps", "8", "--json")
    assert result.code == 0, result.err
    report = result.report
    assert (report["culprits"], report["equal"] is False) == ([], False)
    assert not any(each["parted"] for each in report["steps"])
    first, *_, last = [each["apart_one_bit"] for each in report["steps"] if each["apart_one_bit"]]
    assert last > 100 * first
    assert report["training"]["parted_by"] == "chaos"


ROOT = MODEL.replace("torch.nn.Linear(16, 16), ", "torch.nn.Linear(16, 16, bias=False), ").replace(
    "h = h * 0.7\n        h = torch.relu(h)", "h = h * h\n        h = torch.sqrt(h)"
).replace("torch.randn(8, 16)", "torch.randn(8, 16) * torch.tensor([[1.0]] * 7 + [[0.0]])")  # fmt: skip


@pytest.mark.long
def test_a_nan_of_the_backward_alone_has_its_line(ctrace: Command) -> None:
    ctrace.write("model.py", ROOT)
    result = ctrace("accuracy", "model.py", "--steps", "3", "--json")
    assert result.code == 0, result.err
    made = result.report["first_nonfinite"]
    assert (made["line"], made["stage"], made["in_eager"]) == (11, "backward", True)
    assert result.report["culprits"] == []
    assert result.report["equal"] is None  # steps 2 and 3 have only NaN


PROGRAM = """\
import sys
import torch
import torch._inductor.config as config

if "--wrong" in sys.argv:
    config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        h = self.first(x)
        h = torch.relu(h)
        return self.second(h)

def main():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model)
    for _ in range(3):
        loss = compiled(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
    print(torch.rand(1).item(), config.fx_graph_cache, __name__)

if __name__ == "__main__":
    main()
    sys.exit(int(sys.argv[-1]))
"""


@pytest.mark.long
def test_a_program_is_compared_where_it_calls_compiled_functions(ctrace: Command) -> None:
    ctrace.write("train.py", PROGRAM)
    result = ctrace("accuracy", "train.py", "--json", "--", "--wrong", "0")
    assert result.code == 0, result.err
    report = result.report
    assert {(each["line"], *each["ops"], each["scenario"]) for each in report["culprits"]} == {
        (15, "aten.relu", "program")
    }
    assert {each["stage"] for each in report["culprits"]} == {"forward"}
    assert (report["equal"], report["program"], report["compiled_runs"]) == (False, "exit code 0", 2)
    said = [line for line in result.err.splitlines() if not line.startswith("ctrace")]
    assert said == ctrace.python("train.py", "--wrong", "0").stdout.splitlines()


@pytest.mark.long
def test_a_healthy_program_is_equal_and_its_failure_is_told(ctrace: Command) -> None:
    ctrace.write("train.py", PROGRAM)
    result = ctrace("accuracy", "train.py", "--json", "--", "7")
    assert result.code == 3
    report = result.report
    assert (report["equal"], report["culprits"], report["program"]) == (True, [], "exit code 7")
    assert report["compared"] > 4


@pytest.mark.long
def test_what_is_too_large_is_not_compared(ctrace: Command) -> None:
    ctrace.write("train.py", PROGRAM)
    report = ctrace("accuracy", "train.py", "--json", "--max-bytes", "50", "--", "0").report
    assert (report["equal"], report["compared"]) == (None, 0)
    assert all("more than --max-bytes (5e-05 MB)" in each["why"] for each in report["not_compared"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def model(x):\n    return x + 1\n", "--steps: the model has no parameters to train"),
        (
            "model = torch.nn.Linear(4, 4)\ndef loss(output):\n    return output.argmax()\n",
            "`loss` of the file returns no scalar tensor that requires a gradient",
        ),
        (
            "model = torch.nn.Linear(4, 4)\nclass Broken(torch.optim.SGD):\n    def step(self):\n        1 / 0\n"
            "def optimizer(model):\n    return Broken(model.parameters())\n",
            "the step of Broken raises ZeroDivisionError",
        ),
    ],
)
def test_training_that_cannot_be_is_two_lines(ctrace: Command, text: str, says: str) -> None:
    ctrace.write("model.py", f"import torch\n{text}def inputs():\n    return (torch.randn(2, 4),)\n")
    result = ctrace("accuracy", "model.py", "--steps", "2")
    assert result.code in (2, 3)
    assert says in result.err
    assert "Traceback" not in result.err


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("accuracy", "program.py", "--train"), "program.py is a program"),
        (("accuracy", "eager.py"), "eager.py compiled nothing with Inductor"),
        (("accuracy", "program.py", "--max-bytes", "much"), "--max-bytes much: not a size"),
        (("accuracy",), "no model to compare"),
        (("accuracy", "model.py", "--mode", "fastest"), "--mode fastest: not known to torch.compile"),
    ],
)
def test_a_wrong_command_line_is_two_lines(ctrace: Command, words: tuple[str, ...], says: str) -> None:
    ctrace.write("model.py", MODEL)
    ctrace.write("program.py", "import torch\ntorch.compile(torch.sin)(torch.ones(3))\n")
    ctrace.write("eager.py", "import torch\ntorch.compile(torch.sin)\n")
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
