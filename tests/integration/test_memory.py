"""`ctrace memory` in real processes: the bytes, the lines, and what compiled holds that eager does not."""

import json

import pytest

from tests.integration.conftest import Command
from tests.reports.html.test_html_page import Read
from tests.support.places import ROOT

pytestmark = pytest.mark.integration

MODEL = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 256)
        self.last = torch.nn.Linear(256, 8)

    def forward(self, x):
        h = torch.relu(self.first(x))
        p = torch.softmax(h, -1)
        return self.last(h * p)

model = Net()

def inputs():
    return (torch.randn(1024, 64),)

def optimizer(model):
    return torch.optim.AdamW(model.parameters())
"""
ROWS = 1024 * 256 * 4


@pytest.mark.long
def test_a_training_step_is_followed_to_the_byte(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("memory", "model.py", "--train", "--build", "--json")
    assert result.code == 0, result.err
    report = result.report
    assert report["peak"]["measured"]
    assert report["eager_peak"]["measured"]
    assert report["computed_peak"]["bytes"] == pytest.approx(report["peak"]["bytes"], rel=0.02)
    assert sum(each["bytes"] for each in report["alive"]) + report["unattributed_bytes"] == report["peak"]["bytes"]
    assert abs(report["unattributed_bytes"]) <= 0.02 * report["peak"]["bytes"]
    assert report["graphs"] == 1  # as `explain` counts: its backward is no other one
    assert report["problems"] == []
    # Eager saves the softmax, which compiled computes again.
    softmax = next(each for each in report["lines"] if each["line"] == 11)
    assert softmax["eager_saved_bytes"] == ROWS > 10 * softmax["saved_bytes"]
    kinds: dict[str, int] = {}
    for each in report["alive"]:
        kinds[each["kind"]] = kinds.get(each["kind"], 0) + each["bytes"]
    parameters = (64 * 256 + 256 + 256 * 8 + 8) * 4
    assert kinds["parameter"] == parameters
    assert kinds["optimizer"] == 2 * parameters + 4 * 4  # and the number of steps of each parameter
    assert {each["file"] for each in report["alive"]} <= {"model.py", None}


def test_without_weights_the_numbers_are_the_same(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    real = ctrace("memory", "model.py", "--train", "--json").report
    fake = ctrace("memory", "model.py", "--train", "--fake", "--json").report
    assert not real["peak"]["measured"]
    for name in ("peak", "eager_peak", "alive", "saved", "lines"):
        assert fake[name] == real[name]


PROGRAM = """\
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
step = torch.compile(model)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    for _ in range(2):
        loss = step(torch.randn(128, 64)).square().mean()
        (loss / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.long
def test_a_program_is_followed_with_its_optimizer(ctrace: Command) -> None:
    ctrace.write("train.py", PROGRAM)
    result = ctrace("memory", "train.py", "--json")
    assert result.code == 0, result.err
    report = result.report
    assert report["program"] == "exit code 0"
    assert report["graphs"] == 1  # as `explain` counts: its backward is no other one
    assert {"parameter", "gradient", "optimizer"} <= {each["kind"] for each in report["alive"]}
    state = [each for each in report["alive"] if each["kind"] == "optimizer"]
    assert {each["line"] for each in state} == {11}
    assert sum(each["bytes"] for each in report["alive"]) + report["unattributed_bytes"] == report["peak"]["bytes"]


@pytest.mark.long
def test_a_program_is_measured_and_takes_no_other_inputs(ctrace: Command) -> None:
    ctrace.write("train.py", PROGRAM)
    report = ctrace("memory", "train.py", "--build", "--json").report
    assert (report["peak"]["measured"], report["eager_peak"]["measured"]) == (True, True)
    for name in ("peak", "eager_peak"):
        assert report[f"computed_{name}"]["bytes"] == pytest.approx(report[name]["bytes"], rel=0.01)
    assert sum(each["bytes"] for each in report["alive"]) + report["unattributed_bytes"] == report["peak"]["bytes"]
    refused = ctrace("memory", "train.py", "--fit", "batch")
    assert refused.code == 2
    assert refused.err.splitlines()[-2:] == [
        "ctrace: --fit changes the inputs of a model, and train.py is a program, which makes its own",
        '  name the model in it and an input: ctrace memory train.py:NAME --input "float32[8,128]" --fit batch',
    ]


@pytest.mark.long
def test_a_program_that_raises_has_the_numbers_of_what_ran(ctrace: Command) -> None:
    ctrace.write("train.py", PROGRAM + "raise ValueError('no more data')\n")
    result = ctrace("memory", "train.py", "--build", "--json")
    assert result.code == 3
    ended = "ended with ValueError: no more data"
    assert result.report["program"] == "ValueError: no more data"
    assert result.report["problems"] == [
        f"train.py {ended}: the numbers are of what ran until then",
        f"the run with built kernels {ended}: the peaks are computed",
    ]
    assert result.report["peak"]["measured"] is False


@pytest.mark.long
def test_a_program_for_a_gpu_that_is_not_here_is_offered_the_cpu(ctrace: Command) -> None:
    ctrace.write(
        "train.py",
        "import torch\nkept = torch.compile(torch.ones)(4)\nraise RuntimeError('No CUDA GPUs are available')\n",
    )
    assert "ctrace memory train.py --world 1" in ctrace("memory", "train.py", "--json").report["problems"][1]
    ctrace.write("train.py", "import torch\ntorch.compile\nraise RuntimeError('No CUDA GPUs are available')\n")
    result = ctrace("memory", "train.py")
    assert result.code == 3
    assert "ctrace memory train.py --world 1" in result.err


CAT = """\
import torch

class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.key = torch.nn.Linear(32, 32)
        self.seen = None

    def forward(self, x):
        k = self.key(x).detach()
        self.seen = k if self.seen is None else torch.cat([self.seen, k])
        return (x @ self.seen.t()).sum()

model = Decoder()

def inputs():
    return (torch.randn(64, 32),)
"""


def test_a_cache_that_each_call_makes_longer_is_named(ctrace: Command) -> None:
    ctrace.write("model.py", CAT)
    held = ctrace("memory", "model.py", "--calls", "3", "--json").report["held"]
    assert [(each["holder"], each["holder_line"], each["count"]) for each in held] == [("model.seen", 11, 1)]


SEQUENTIAL = """\
import torch

step = torch.compile(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64)))
for _ in range(2):
    x = torch.randn(512, 64)
    loss = (step(x) - x).square().mean()
    loss.backward()
"""


@pytest.mark.long
def test_a_graph_without_a_line_of_the_user_has_the_line_of_its_call(ctrace: Command) -> None:
    """A Sequential consists of code of torch; eager has the line that calls it, and so has compiled."""
    ctrace.write("train.py", SEQUENTIAL)
    report = ctrace("memory", "train.py", "--json").report
    large = [each for each in report["alive"] if each["bytes"] > 1024]
    assert {each["line"] for each in large if each["kind"] == "saved"} == {5, 6}
    assert {each["line"] for each in large if each["kind"] == "gradient"} == {6}
    assert {(each["line"], each["eager_saves"]) for each in report["saved"]} == {(6, True)}


EVALUATES = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 512)
        self.last = torch.nn.Linear(512, 64)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))

model = torch.compile(Net().eval())
outputs = [model(torch.randn(128, 64)) for _ in range(3)]
print(torch.cat(outputs).mean())
"""


@pytest.mark.long
def test_a_program_that_saves_for_no_backward_is_tried_without_gradients(ctrace: Command) -> None:
    ctrace.write("evaluate.py", EVALUATES)
    report = ctrace("memory", "evaluate.py", "--json").report
    assert report["saved_bytes"] == report["eager_saved_bytes"] > 3 * 128 * 512 * 4
    assert all(each["eager_saves"] for each in report["saved"])
    (option,) = report["options"]
    assert (option["name"], option["tried"], option["line"]) == ("no_grad", True, 10)
    assert option["peak_bytes"] < report["peak"]["bytes"] - 2 * 128 * 512 * 4
    ctrace.write("without.py", EVALUATES.replace("outputs =", "torch.set_grad_enabled(False)\noutputs ="))
    without = ctrace("memory", "without.py", "--json").report
    assert without["peak"]["bytes"] == option["peak_bytes"]
    assert without["options"] == []


BY_HAND = """\
import torch

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(32, 96)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 128, 3, 2, 16).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / 4.0
        weights = scores.softmax(-1)
        weights = torch.nn.functional.dropout(weights, 0.1, self.training)
        return (weights @ v).transpose(1, 2).reshape(2, 128, 32)

model = Attention()

def inputs():
    return (torch.randn(2, 128, 32),)
"""


@pytest.mark.long
def test_an_attention_that_a_pattern_replaces_keeps_its_lines(ctrace: Command) -> None:
    """Inductor replaces it by a graph of its own, whose nodes have no stack trace."""
    ctrace.write("model.py", BY_HAND)
    report = ctrace("memory", "model.py", "--train", "--json").report
    assert {each["line"] for each in report["alive"] if each["bytes"] > 1024} >= {10, 12}
    large = [each for each in (*report["alive"], *report["saved"]) if each["bytes"] > 1024]
    assert all(each["line"] for each in large if each.get("kind") != "other")  # the gradient that the step starts with
    kernels = ctrace("kernels", "model.py", "--train", "--json").report
    made = [each for part in kernels["parts"] for each in part["kernels"] if "randint" not in each["name"]]
    lines = {each["name"]: each["lines"] for each in made}
    assert all(lines.values()), lines


LIBRARY = """\
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 512)

    def forward(self, x):
        h = self.up(x)
        return torch.softmax(h, -1).square().mean()
"""
USES_LIBRARY = """\
import sys
sys.path.insert(0, "site-packages")
import torch
from blocks import Block

step = torch.compile(Block())
for _ in range(3):
    step(torch.randn(256, 64)).backward()
"""


@pytest.mark.long
def test_eager_has_the_lines_of_a_library_that_compiled_has(ctrace: Command) -> None:
    ctrace.write("site-packages/blocks.py", LIBRARY)
    ctrace.write("train.py", USES_LIBRARY)
    report = ctrace("memory", "train.py", "--json").report
    saved = {(each["file"], each["line"]) for each in report["lines"] if each["eager_saved_bytes"] > 256 * 512}
    assert {line for file, line in saved if file.endswith("blocks.py")} == {10}
    assert not any(file == "train.py" for file, _ in saved)
    softmax, inputs = 256 * 512 * 4, 256 * 64 * 4
    assert report["eager_saved_bytes"] == softmax + inputs
    assert report["saved_bytes"] >= softmax + inputs


NO_GRADIENT = """\
import torch

model = torch.nn.Linear(4, 4).requires_grad_(False)

def inputs():
    return (torch.randn(2, 4),)
"""
RAISES = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        raise ValueError("no such step")

model = Net()

def inputs():
    return (torch.randn(2, 4),)
"""
EMPTY = "import torch\nprint(torch.compile)\n"


@pytest.mark.parametrize(
    ("source", "options", "code", "what"),
    [
        (NO_GRADIENT, ["--train"], 2, "no output of the model requires a gradient"),
        (RAISES, [], 3, "ValueError: no such step (at"),
        (NO_GRADIENT, ["--fake", "--build"], 2, "--fake and --build exclude each other"),
    ],
)
def test_bad_input_is_named_in_two_lines(
    source: str, options: list[str], code: int, what: str, ctrace: Command
) -> None:
    ctrace.write("model.py", source)
    result = ctrace("memory", "model.py", *options)
    assert result.code == code
    assert what in result.err.splitlines()[-2]


@pytest.mark.long
def test_a_rank_has_its_shards_and_what_it_gathers(ctrace: Command) -> None:
    sample = ROOT / "sample_models" / "fsdp_tp_llama.py"
    options = ("--train", "--world", "8", "--rank", "3", "--json")
    report = ctrace("memory", str(sample), *options).report
    assert (report["rank"], report["world"], report["problems"]) == (3, 8, [])
    parameters, _ = [each for each in report["alive"] if each["kind"] == "parameter"]
    weights, norms = (
        2 * (4 * 256 * 256 + 3 * 256 * 1024) // 8,
        2 * 2 * 256 // 4,
    )  # tensor parallelism leaves norms whole
    assert (parameters["count"], parameters["bytes"]) == (18, 4 * (weights + norms))
    gathered = [
        each for each in report["alive"] if each["function"] == "init_all_gather_outputs of torch.distributed.fsdp"
    ]
    assert sum(each["bytes"] for each in gathered) == 4 * (4 * weights // 2 + 2 * 256)  # of one block, of the two
    assert sum(each["bytes"] for each in report["alive"]) + report["unattributed_bytes"] == report["peak"]["bytes"]


def test_a_rank_that_needs_its_peers_is_refused(ctrace: Command) -> None:
    ctrace.write(
        "train.py",
        "import torch.distributed as dist\ndist.init_process_group('gloo')\nfound = [None] * 4\n"
        "dist.all_gather_object(found, 1)\nimport torch\ntorch.compile(torch.sin)(torch.rand(2))\n",
    )
    result = ctrace("memory", "train.py", "--world", "4")
    assert result.code == 2
    assert "train.py:4 needs the objects of all ranks" in result.err.splitlines()[-2]
    assert "--assume" in result.err.splitlines()[-1]


def test_a_program_without_tensors_is_refused(ctrace: Command) -> None:
    ctrace.write("nothing.py", EMPTY)
    result = ctrace("memory", "nothing.py")
    assert result.code == 2
    assert "allocated no tensor" in result.err


@pytest.mark.long
def test_a_report_keeps_the_memory_with_the_run(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("report", "model.py", "--train", "--memory", "-o", "new.html")
    assert result.code == 0, result.err
    printed = ctrace("memory", "model.py", "--train", "--json").report
    assert ctrace("report", "--memory", "-o", "saved.html").code == 0
    for name in ("new.html", "saved.html"):
        shown = Read((ctrace.folder / name).read_text()).documents()["memory"]
        assert shown["peak"] == printed["peak"]
        assert shown["eager_peak"] == printed["eager_peak"]
        assert shown["alive"] == printed["alive"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--try"], "--try is for --memory"),
        (["--memory", "--target", "h100"], "--memory and --target exclude each other"),
        (["--memory", "--backend", "eager"], "--memory and --backend exclude each other"),
    ],
)
def test_a_report_refuses_memory_that_is_not_followed(options: list[str], what: str, ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("report", "model.py", *options)
    assert result.code == 2
    assert what in result.err


@pytest.mark.long
def test_a_diff_names_the_line_that_grew(ctrace: Command) -> None:
    ctrace.write("before.py", MODEL)
    ctrace.write("after.py", MODEL.replace("softmax(h, -1)", "softmax(h.double(), -1).float()"))
    result = ctrace("diff", "before.py", "after.py", "--train", "--memory", "--json", "--fail-on", "memory")
    assert result.code == 1, result.err
    grown = result.report["memory"]
    assert grown["now"]["bytes"] > grown["was"]["bytes"]
    assert grown["lines"][0]["where"] == "after.py:11"


COMPILED_STEP = """\
import torch

model = torch.nn.Linear(64, 256)
labels = torch.tensor([[0.5] * 256] * 128)
optimizer = torch.optim.AdamW(model.parameters())
update = torch.compile(optimizer.step)
for _ in range(2):
    (model(torch.randn(128, 64)) - labels).square().mean().backward()
    update()
    optimizer.zero_grad()
"""


@pytest.mark.long
def test_a_compiled_step_of_an_optimizer_has_its_line(ctrace: Command) -> None:
    ctrace.write("train.py", COMPILED_STEP)
    result = ctrace("memory", "train.py", "--json")
    assert result.code == 0, result.err
    for alive in (result.report["alive"], result.report["eager_alive"]):
        state = [each for each in alive if each["kind"] == "optimizer"]
        assert sum(each["bytes"] for each in state) == 2 * (64 * 256 + 256) * 4 + 2 * 4  # and two numbers of steps
        assert {each["line"] for each in state} == {9}
        labels = next(each for each in alive if each["line"] == 4)
        assert (labels["kind"], labels["bytes"]) == ("other", 128 * 256 * 4)


def test_what_lowers_the_peak_was_tried(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("memory", "model.py", "--train", "--try", "--perfetto", "step.json", "--json")
    assert result.code == 0, result.err
    report = result.report
    options = report["options"]
    budgets = [each for each in options if each["name"] == "activation_memory_budget"]
    assert {each["statement"].rpartition(" ")[2] for each in budgets} == {"0.8", "0.5", "0.3", "0.1"}
    assert all(each["tried"] and not each["measured"] and each["peak_bytes"] > 0 for each in budgets)
    (rounded,) = [each for each in options if each["name"] == "saved_dtype"]
    assert rounded["tried"]
    assert 0 < rounded["gradient_change"] < 0.01
    peaks = [each["peak_bytes"] for each in options if each["peak_bytes"] is not None]
    assert peaks == sorted(peaks)
    events = json.loads((ctrace.folder / "step.json").read_text())["traceEvents"]
    counters = [sum(each["args"].values()) for each in events if each["ph"] == "C"]
    assert max(counters) == report["peak"]["bytes"]
    untried = ctrace("memory", "model.py", "--train", "--try", "--budget", "0.000000001s", "--json").report["options"]
    assert untried
    assert not any(each["tried"] for each in untried)
    assert all("s for trials were over" in each["why_not"] for each in untried)


IN_PARTS = """\
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(256, 256)

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.wide(x))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            torch._dynamo.graph_break()
            x = block(x)
        return x

model = Net()

def inputs():
    return (torch.randn(4, 256),)

def optimizer(model):
    return torch.optim.AdamW(model.parameters())
"""
WEIGHTS = 4 * (256 * 256 + 256) * 4


@pytest.mark.long
def test_a_step_of_the_optimizer_in_the_backward_frees_gradients(ctrace: Command) -> None:
    ctrace.write("model.py", IN_PARTS)
    report = ctrace("memory", "model.py", "--train", "--try", "--json").report
    assert sum(each["bytes"] for each in report["alive"] if each["kind"] == "optimizer") >= 2 * WEIGHTS
    (option,) = [each for each in report["options"] if each["name"] == "optimizer_in_backward"]
    assert report["peak"]["bytes"] - option["peak_bytes"] > WEIGHTS // 2
    ctrace.write("model.py", IN_PARTS.replace("            torch._dynamo.graph_break()\n", ""))
    report = ctrace("memory", "model.py", "--train", "--try", "--json").report
    (option,) = [each for each in report["options"] if each["name"] == "optimizer_in_backward"]
    assert option["peak_bytes"] > 3 * WEIGHTS  # one graph returns all gradients: they are there together


HUGE = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(64, 1 << 24)

    def forward(self, x):
        return torch.relu(self.wide(x))

model = Net()

def inputs():
    return (torch.randn(2, 64),)
"""


@pytest.mark.long
def test_the_largest_batch_fits_and_the_next_one_does_not(ctrace: Command) -> None:
    ctrace.write("model.py", HUGE)
    result = ctrace("memory", "model.py", "--fit", "batch", "--target", "t4", "--json")
    assert result.code == 0, result.err
    found = result.report
    assert found["fits"] > 0
    assert found["peak_bytes"] <= found["limit_bytes"] < found["over_bytes"]
    sizes = {each["size"]: each["bytes"] for each in found["tried"]}
    assert sizes[found["fits"]] == found["peak_bytes"]
    assert sizes[found["fits"] + 1] == found["over_bytes"]
    assert found["line"] == "model.py:9"
    assert found["least_seconds"] > 0
    refused = ctrace("memory", "model.py", "--fit", "length")
    assert refused.code == 2
    assert "--fit length: not known" in refused.err


VOCABULARY = """\
import torch
from torch.nn import functional as F

class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(32, 32768, bias=False)

    def forward(self, x):
        return self.head(torch.relu(x))

model = Head()
labels = torch.randint(0, 32768, (256,))

def inputs():
    return (torch.randn(256, 32),)

def loss(logits):
    return F.cross_entropy(logits, labels)
"""


@pytest.mark.long
def test_a_loss_over_a_large_vocabulary_is_tried_in_parts_with_and_without_its_head(ctrace: Command) -> None:
    ctrace.write("model.py", VOCABULARY)
    result = ctrace("memory", "model.py", "--train", "--try", "--build", "--json")
    assert result.code == 0, result.err
    first = result.report["options"][0]
    assert (first["name"], first["measured"]) == ("chunked_head", True)
    assert first["peak_bytes"] < 0.5 * result.report["peak"]["bytes"]  # the logits are never whole
    assert first["computed_bytes"] == pytest.approx(first["peak_bytes"], rel=0.02)
    (alone,) = [each for each in result.report["options"] if each["name"] == "chunked_loss"]
    assert alone["computed_bytes"] < 0.8 * result.report["peak"]["bytes"]
    assert alone["extra_flops"] is None


OVERWRITES = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 1024)
        self.down = torch.nn.Linear(1024, 64)
        self.act = torch.nn.ReLU()
        self.gate = torch.nn.SiLU()

    @torch._dynamo.disable
    def eager(self, x):
        h = self.act(x)
        return self.gate(h) + h

    def forward(self, x):
        return self.down(self.eager(self.up(x)))

model = Net().requires_grad_(False)

def inputs():
    return (torch.randn(256, 64),)
"""


@pytest.mark.long
def test_what_may_be_overwritten_is_tried_and_only_that(ctrace: Command) -> None:
    ctrace.write("model.py", OVERWRITES)
    report = ctrace("memory", "model.py", "--try", "--json").report
    (option,) = report["options"]
    assert (option["name"], option["text"]) == ("in_place", "in place: model.act (ReLU)")  # `h` is used after the gate
    assert report["peak"]["bytes"] - option["peak_bytes"] == 256 * 1024 * 4


REGIONS = """\
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 1024)
        self.down = torch.nn.Linear(1024, 64)

    @torch.compiler.nested_compile_region
    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

model = Net()

def inputs():
    return (torch.randn(512, 64),)
"""


@pytest.mark.long
def test_memory_inside_of_a_nested_region_counts(ctrace: Command) -> None:
    ctrace.write("model.py", REGIONS)
    report = ctrace("memory", "model.py", "--train", "--build", "--json").report
    assert report["computed_peak"]["bytes"] == pytest.approx(report["peak"]["bytes"], rel=0.01)
    assert report["alive"][0]["line"] == 11
    assert report["flops"] == pytest.approx(3 * 3 * 4 * 512 * 64 * 1024, rel=0.05)


@pytest.mark.long
def test_an_unknown_mode_is_refused_in_two_lines(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("memory", "model.py", "--mode", "reduce-overheed")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-2:] == [
        "ctrace: --mode reduce-overheed: not known to torch.compile",
        "  did you mean reduce-overhead?",
    ]
