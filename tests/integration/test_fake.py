"""Models without weights, end to end: the same as with weights, where it stops, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Command, Result

MODEL = """\
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 32, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("rates", torch.linspace(0, 1, 8))
        self.drop = [each.item() for each in torch.linspace(0, 0.5, 3)]

    def forward(self, tokens):
        x = self.norm(self.embed(tokens)) * self.rates
        print("half", x)
        if self.steps.item() == 0:
            x = torch.softmax(x * self.drop[-1], -1)
        return self.head(x)

model = Model()
def inputs(): return (torch.randint(0, 32, (2, 5)),)
"""
ASKS = """\
import torch
class Asks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    def forward(self, x):
        x = self.first(x)
        if x.sum() > 0:
            return self.second(x)
        return x
model = Asks()
def inputs(): return (torch.randn(2, 4),)
"""
ROUTED = """\
import torch
from torch import nn
class Routed(nn.Module):
    def __init__(self, width=2048):
        super().__init__()
        self.expert, self.gate = nn.Linear(width, width), nn.Linear(width, 2)
    def forward(self, x):
        picked = self.gate(x).argmax(-1)
        for index in range(2):
            rows = (picked == index).nonzero().squeeze(-1)
            x = x.index_add(0, rows, self.expert(x[rows]))
        if x.mean() > -100:
            x = x * 2
        return x / x.shape.numel()
model = Routed()
def inputs(): return (torch.rand(6, 2048),)
def small(): return Routed(16), (torch.rand(6, 16),)
"""
CARRIED = """\
import torch
torch._dynamo.config.capture_scalar_outputs = True
class Carried(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def forward(self, x):
        number = self.layer(x).sum().item()
        return x * number
model = Carried()
def inputs(): return (torch.randn(2, 4),)
"""


@pytest.fixture
def explained(ctrace: Command) -> Callable[..., Result]:
    def run(text: str, *words: str) -> Result:
        (ctrace.folder / "model.py").write_text(text)
        return ctrace("explain", "model.py", "--json", *words)

    return run


def test_everything_is_as_with_weights(ctrace: Command, explained: Callable[..., Result]) -> None:
    found = []
    for words in ((), ("--fake",)):
        report = explained(MODEL, *words).report
        views = [ctrace(*view).report for view in (("graphs", "--json"), ("guards", "--json"), ("kernels", "--json"))]
        found.append((report, *map(_without_times, views), ctrace("kernels", "--source").out))
    (real, *of_real), (fake, *of_fake) = found
    assert of_real == of_fake
    assert [real["fake"], fake["fake"]] == [False, True]
    for name in ("verdict", "graphs", "breaks", "coverage", "kernels", "fusion", "parameters", "parameter_bytes"):
        assert real[name] == fake[name], name
    assert (fake["parameters"], fake["parameter_bytes"]) == (32 * 8 + 16, 4 * (32 * 8 + 16))
    assert [real["dangers"], fake["dangers"]] == [[], None]
    assert fake["scenarios"][0]["compared"] == 0
    assert fake["scenarios"][0]["not_compared"] == "without weights, there are no values to compare"
    assert (fake["assumed"], fake["stopped"]) == ([], None)


def _without_times(data: Any) -> Any:
    """Leave out times, and ids that differ between processes."""
    if isinstance(data, dict):
        return {name: _without_times(value) for name, value in data.items() if name not in ("seconds", "latency_us")}
    if isinstance(data, list):
        return [_without_times(each) for each in data]
    return "".join("#" if each.isdigit() else each for each in data) if isinstance(data, str) else data


@pytest.mark.long
def test_a_branch_on_a_value_stops_there_and_goes_on_as_assumed(explained: Callable[..., Result]) -> None:
    stopped = explained(ASKS, "--fake")
    report = stopped.report
    assert (report["verdict"], stopped.code) == ("incomplete", 3)
    assert (report["stopped"]["file"], report["stopped"]["line"]) == ("model.py", 8)
    assert "x.sum() > 0" in report["stopped"]["asked"]
    assert [each["line"] for each in report["breaks"]] == [8]
    assert len(report["graphs"]) == 1
    column = report["stopped"]["column"]
    place = "model.py:8" if column is None else f"model.py:8:{column}"
    report = explained(ASKS, "--fake", "--assume", f"{place}=True,False").report
    assert (report["verdict"], report["stopped"], len(report["graphs"])) == ("partial", None, 2)
    assert {(each["line"], each["value"], each["from"]) for each in report["assumed"]} == {
        (8, "True", "user"),
        (8, "False", "user"),
    }


def test_what_a_small_model_answers_is_assumed(explained: Callable[..., Result]) -> None:
    report = explained(ROUTED, "--fake", "--fast", "--assume", "model.py:12=False").report
    assert (report["stopped"], report["error"], report["problems"]) == (None, None, [])
    found = [(each["line"], each["value"], each["from"]) for each in report["assumed"]]
    assert (12, "False", "user") in found  # what the user says comes first
    rows = [int(value) for line, value, origin in found if (line, origin) == (10, "small_run")]
    assert rows
    assert all(0 <= each <= 6 for each in rows)
    again = explained(ROUTED, "--fake", "--fast", "--assume", "model.py:12=False").report
    assert again["assumed"] == report["assumed"]


def test_a_small_model_that_raises_is_a_problem(explained: Callable[..., Result]) -> None:
    report = explained(ROUTED.replace("torch.rand(6, 16)", "torch.rand(6, 3)"), "--fake", "--fast").report
    assert [each for each in report["problems"] if "small() raises RuntimeError" in each["what"]]
    assert report["stopped"]["line"] == 10


def test_a_value_in_the_graph_is_carried_as_a_symbol(explained: Callable[..., Result]) -> None:
    report = explained(CARRIED, "--fake").report
    assert (report["verdict"], report["stopped"]) == ("compiled", None)
    assert [(each["line"], each["from"]) for each in report["assumed"]] == [(8, "symbol")]


def test_what_a_graph_with_symbols_writes_to_is_not_known_any_more(explained: Callable[..., Result]) -> None:
    text = CARRIED.replace("number =", "self.steps += 1\n        number =").replace(
        "return x * number", "x = x * number"
    )
    text = text.replace(
        "layer = ", 'layer = torch.nn.Linear(4, 4)\n        self.register_buffer("steps", torch.zeros(()))\n#'
    )
    report = explained(f"{text}\n", "--fake", "--fast").report
    assert report["stopped"] is None
    asks = "        torch._dynamo.graph_break()\n        if self.steps > 1:\n            x = x * 2\n        return x"
    text = text.replace("x = x * number", f"x = x * number\n{asks}")
    report = explained(text, "--fake", "--fast").report
    assert report["stopped"]["asked"].startswith("the value of `self.steps > 1`")


def test_a_model_on_the_meta_device_needs_no_option(explained: Callable[..., Result]) -> None:
    text = CARRIED.replace("model = Carried()", 'with torch.device("meta"): model = Carried()')
    report = explained(text, "--fast").report
    assert (report["verdict"], report["fake"], report["parameters"]) == ("compiled", True, 20)


@pytest.mark.parametrize("inputs", ["torch.randn(2, 4, device='meta')", "torch.randn(2, 4)"])
def test_inputs_of_a_model_on_the_meta_device_may_be_there_or_not(
    explained: Callable[..., Result], inputs: str
) -> None:
    text = ASKS.replace("model = Asks()", 'with torch.device("meta"): model = Asks()')
    report = explained(text.replace("torch.randn(2, 4)", inputs), "--fast").report
    assert (report["verdict"], report["stopped"]["line"]) == ("incomplete", 8)


@pytest.mark.long
def test_tensors_of_two_devices_raise_and_read_no_memory(explained: Callable[..., Result]) -> None:
    report = explained(CARRIED.replace("return x * number", "return x + torch.ones(4, device='meta')"), "--fake").report
    assert report["verdict"] == "failed"
    assert "device" in report["error"]["message"]


def test_layers_are_cut_and_labeled(ctrace: Command) -> None:
    (ctrace.folder / "deep.py").write_text(
        "import torch\n"
        "class Deep(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(9))\n"
        "    def forward(self, x):\n"
        "        for layer in self.layers: x = layer(x)\n"
        "        return x\n"
        "model = Deep()\n"
        "def inputs(): return (torch.randn(2, 4),)\n"
    )
    done = ctrace("explain", "deep.py", "--layers", "2", "--fake", "--fast")
    assert "layers cut: 7 layers left out, 2 kept of each list (--layers)" in done.out
    assert "fake: 40 parameters, 0.2 kB, no storage" in done.out
    report = ctrace("explain", "deep.py", "--layers", "2", "--fast", "--json").report
    assert (report["layers"], report["parameters"], report["fake"]) == ({"left": 2, "cut": 7}, 40, False)


def test_a_check_takes_it(ctrace: Command) -> None:
    (ctrace.folder / "model.py").write_text(ASKS)
    done = ctrace("check", "model.py", "--fake", "--json")
    assert done.code == 4
    assert "model.py:8" in done.out
    (ctrace.folder / "model.py").write_text(CARRIED)
    assert ctrace("check", "model.py", "--fake").code == 0


REFUSED = {
    "build": (("explain", "model.py", "--fake", "--build"), "--fake and --build exclude each other"),
    "time": (("time", "model.py", "--fake"), "ctrace time --fake: without weights, nothing can be run and timed"),
    "fix": (("fix", "model.py", "--fake"), "ctrace fix --fake: a repair is proved by comparing values"),
    "accuracy": (("accuracy", "model.py", "--fake"), "ctrace accuracy --fake: without weights, there are no numbers"),
    "form": (("explain", "model.py", "--fake", "--assume", "here"), "--assume here: not a place with values"),
    "value": (("explain", "model.py", "--fake", "--assume", "a.py:1=maybe"), "'maybe' is neither a number nor True"),
    "folder": (("explain", "hf:./nowhere"), "there is no folder ./nowhere"),
}


@pytest.mark.parametrize(("words", "what"), REFUSED.values(), ids=REFUSED.keys())
def test_what_needs_values_is_refused_in_two_lines(ctrace: Command, words: tuple[str, ...], what: str) -> None:
    (ctrace.folder / "model.py").write_text(ASKS)
    done = ctrace(*words)
    first, second = done.err.splitlines()
    assert (done.code, done.out) == (2, "")
    assert what in first
    assert second.startswith("  ")


WRONG = {
    "asks while it is made": (
        "import torch\nmodel = torch.nn.Linear(2, 2)\nscale = model.weight.mean().item()\ninputs = (torch.rand(2, 2),)\n",
        "model.py:3 asks for the value of `model.weight.mean().item()`",
    ),
    "NumPy": (
        "import torch\nmodel = torch.nn.Linear(2, 2)\nw = model.weight.detach().numpy()\ninputs = (torch.rand(2, 2),)\n",
        "as a NumPy array",
    ),
    "an extension": (
        "import torch\nmodel = torch.nn.Linear(2, 2)\ntorch._C._to_dlpack(model.weight.detach())\n"
        "inputs = (torch.rand(2, 2),)\n",
        "model.py:3 asks for the memory of values that do not exist",
    ),
    "small makes no inputs": (
        "import torch\nmodel = torch.nn.Linear(2, 2)\ninputs = (torch.rand(2, 2),)\ndef small(): return model\n",
        "small() returns Linear, not a model and its inputs",
    ),
    "real inputs made too early": (
        "import torch\nmodel = torch.nn.Linear(2, 2)\nreal = (0,)\ninputs = (torch.rand(2, 2),)\n",
        "real names inputs that were made before it was read",
    ),
}


@pytest.mark.parametrize(("text", "what"), WRONG.values(), ids=WRONG.keys())
def test_a_file_that_needs_values_gets_two_lines(ctrace: Command, text: str, what: str) -> None:
    (ctrace.folder / "model.py").write_text(text)
    done = ctrace("explain", "model.py", "--fake")
    assert done.code == 2
    lines = [line for line in done.err.splitlines() if not line.startswith(("|", "output of"))]
    assert what in lines[-2]
    assert lines[-1].startswith("  ")


def test_memory_names_the_line_of_an_extension(ctrace: Command) -> None:
    """It made a traceback of torch's, which speaks of tracing into a custom kernel."""
    text = (
        "import torch\nlayer = torch.nn.Linear(4, 4)\ndef model(x):\n    torch._C._to_dlpack(layer(x).detach())\n"
        "    return layer(x)\ndef inputs(): return (torch.rand(2, 4),)\n"
    )
    (ctrace.folder / "model.py").write_text(text)
    done = ctrace("memory", "model.py", "--fake")
    assert (done.code, len(done.err.splitlines())) == (2, 2), done.err
    assert "model.py:4 asks for the memory of values that do not exist" in done.err


def test_inputs_that_the_file_marks_as_real_have_values(explained: Callable[..., Result]) -> None:
    text = (
        "import torch\n"
        "layer = torch.nn.Linear(4, 4)\n"
        "def model(x, count):\n"
        "    return layer(x) * count.max().item()\n"
        'real = ("count",)\n'
        'def inputs(): return {"x": torch.randn(2, 4), "count": torch.randint(1, 5, (3,))}\n'
    )
    assert explained(text, "--fake", "--fast").report["stopped"] is None
    assert explained(text.replace("real =", "other ="), "--fake", "--fast").report["stopped"]["line"] == 4


def _folder(path: Path, **changes: Any) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "vocab_size": 64}
    sizes = {"intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2}
    path.mkdir()
    (path / "config.json").write_text(json.dumps({**config, **sizes, **changes}))


def test_a_folder_of_transformers_is_a_target(ctrace: Command) -> None:
    pytest.importorskip("transformers")
    _folder(ctrace.folder / "llama")
    report = ctrace("explain", "hf:./llama", "--fast", "--json", "--input", "input_ids=int64[1,8]").report
    assert (report["verdict"], report["fake"]) == ("compiled", True)
    assert report["parameters"] == 2 * 64 * 16 + 16 + 2 * (2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 32 + 2 * 16)
