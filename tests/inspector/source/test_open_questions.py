"""Questions about a change that reading leaves open: slices, devices, other objects, and what callers pass."""

import pytest

from ctrace.inspector.source.open_questions import open_questions

# Slices

FILE = """\
import torch

def f(self, x, n):
    rows = {rows}
    {line}
    return h
"""
BRANCH = "h = x + {0} if x.sum() > 0 else x"
WHERE = "h = torch.where(x.sum() > 0, x + {0}, x)"


def about_slice(rows: str, read: str) -> tuple[str, ...]:
    before, after = (FILE.format(rows=rows, line=each.format(read)) for each in (BRANCH, WHERE))
    return open_questions(before, after)


@pytest.mark.parametrize(("rows", "read"), [("self.table[: x.shape[0]]", "rows"), ("1", "self.table[:, :n]")])
def test_a_slice_up_to_a_computed_size_is_asked_about(rows: str, read: str):
    (question,) = about_slice(rows, read)
    assert "self.table[" in question


@pytest.mark.parametrize(("rows", "read"), [("self.table[:4]", "rows"), ("self.table[0]", "rows"), ("x[:-1]", "rows")])
def test_a_constant_bound_is_not(rows: str, read: str):
    assert about_slice(rows, read) == ()


def test_a_slice_on_a_line_that_stays_is_not_read():
    text = FILE.format(rows="self.table[:n] + x", line="h = x if x.sum() > 0 else 2 * x")
    assert open_questions(text, text.replace("x if x.sum() > 0 else 2 * x", "torch.where(x.sum() > 0, x, 2 * x)")) == ()


# Devices

HEAD = "import torch\n\ndef f(self, x, n):\n"


def about_device(before: str, after: str, above: str = "") -> tuple[str, ...]:
    lines = [f"    {each}\n" for each in above.splitlines()]
    body = "".join(lines)
    return open_questions(HEAD + body + f"    {before}\n    return y\n", HEAD + body + f"    {after}\n    return y\n")


@pytest.mark.parametrize(
    ("above", "before", "after", "name"),
    [
        ("p = torch.arange(n).float()", "y = p * self.rate.item()", "y = p * self.rate.detach()", "p"),
        ("p = torch.zeros(n, 3)\nq = p + 1", "y = q * self.rate.item()", "y = q * self.rate.detach()", "q"),
        ("p = torch.arange(n)", "p = p * self.rate.item()", "p = p * self.rate.detach()", "p"),
        ("", "y = x if x.sum() > 0 else torch.zeros(3)", "y = torch.where(x.sum() > 0, x, torch.zeros(3))", "torch.zeros(3)"),
    ],
)  # fmt: skip
def test_a_tensor_of_the_cpu_is_asked_about(above: str, before: str, after: str, name: str):
    (question,) = about_device(before, after, above)
    assert f"`{name}`" in question


@pytest.mark.parametrize(
    "above",
    [
        "p = torch.arange(n, device=x.device)", "p = torch.arange(n).to(x.device)", "p = torch.zeros(())",
        "p = torch.tensor(0.5)", "p = torch.zeros_like(x)", "p = x.new_zeros(3)", "p = x + 1",
    ],
)  # fmt: skip
def test_what_may_be_combined_is_not(above: str):
    assert about_device("y = p * self.rate.item()", "y = p * self.rate.detach()", above) == ()


def test_lines_that_do_not_change_are_not_read():
    assert about_device("y = x * self.rate.item()", "y = x * self.rate.detach()", "p = torch.arange(n) * x") == ()


# Other objects, and callers


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ('SIZES = {"tiny": {"levels": 1}}\nnet = Net(**SIZES["tiny"])', 1),
        ('SIZES = {"tiny": 1}\ndef make(name):\n    return Net(SIZES[name])', 1),
        ("def make(levels):\n    return Net(levels)\nnets = make(1), make(4)", 1),
        ("def make(levels=1):\n    return Net(levels)\nnet = make()", 0),
        ("LEVELS = 1\nnet = Net(LEVELS)", 0),
    ],
)
def test_objects_of_a_table_have_other_sizes(made: str, asked: int):
    lines = "h = h + self.slots if h.sum() > 0 else h", "h = torch.where(h.sum() > 0, h + self.slots, h)"
    head = SIZED.partition("def small")[0]
    assert len(open_questions(*(head.format(line=line) + made for line in lines))) == asked


SIZED = """\
import torch

class Net(torch.nn.Module):
    def __init__(self, levels=1):
        super().__init__()
        self.slots = torch.nn.Parameter(torch.randn(levels, 8))
        self.scale = 2.0

    def forward(self, h):
        {line}
        return h

def small():
    return Net(levels=1)

def large():
    return Net(levels={large})
"""
COPIED = """\
import copy

class Net:
    def __init__(self, stats):
        self.stats = stats

    def {method}(self, stats):
        self.stats["mean"] = {value}

    def forward(self, h):
        kept = {copy}
        return h - kept["mean"]
"""


def about_size(name: str, large: int) -> tuple[str, ...]:
    before = f"h = h + self.{name} if h.sum() > 0 else h"
    after = f"h = torch.where(h.sum() > 0, h + self.{name}, h)"
    return open_questions(*(SIZED.format(line=line, large=large) for line in (before, after)))


def test_a_size_that_another_object_has_is_asked_about():
    (question,) = about_size("slots", 4)
    assert "`self.slots`" in question
    assert "Line 17" in question


def test_equal_objects_and_attributes_of_one_size_are_not():
    assert about_size("slots", 1) == ()
    assert about_size("scale", 4) == ()


def copies(method: str, value: str) -> tuple[str, ...]:
    made = ("copy.deepcopy(self.stats)", "{k: v.clone() for k, v in self.stats.items()}")
    return open_questions(*(COPIED.format(method=method, value=value, copy=each) for each in made))


def test_a_copy_of_what_a_caller_passes_is_asked_about():
    (question,) = copies("set_stats", "stats")
    assert "`self.stats`" in question
    assert "line 8" in question


def test_a_copy_of_what_the_class_makes_itself_is_not():
    assert copies("reset", "0.0") == ()


# Conditions of the model, sides of the caller

CHOSEN = """\
import torch

class M:
    def forward(self, x, lengths):
        h = {made}
        {line}
        return h, lengths
"""
LENGTHS = "lengths = lengths.clamp(max=3) if h.max() > 4 else lengths"
SELECTED = "lengths = torch.where(h.max() > 4, lengths.clamp(max=3), lengths)"


def about_choice(made: str, before: str, after: str) -> tuple[str, ...]:
    return open_questions(CHOSEN.format(made=made, line=before), CHOSEN.format(made=made, line=after))


def test_what_a_caller_passes_may_be_on_another_device_than_the_model():
    (question,) = about_choice("self.fc(x)", LENGTHS, SELECTED)
    assert "`lengths`" in question


@pytest.mark.parametrize(
    ("made", "before", "after"),
    [
        ("x + 1", LENGTHS, SELECTED),
        ("self.fc(x)", "h = h * 2 if h.max() > 4 else h", "h = torch.where(h.max() > 4, h * 2, h)"),
        ("self.fc(x)", "h = h * 2 if lengths.max() > 4 else h", "h = torch.where(lengths.max() > 4, h * 2, h)"),
    ],
)
def test_sides_that_the_model_computes_are_on_its_device(made: str, before: str, after: str):
    assert about_choice(made, before, after) == ()


# Properties

PROPERTY = """\
import torch

class M:
    def __init__(self):
        self.history = []

    @property
    def gain(self):
        {body}

    def forward(self, h):
        {line}
        return h
"""


def about_property(body: str) -> tuple[str, ...]:
    lines = "h = h * self.gain if h.max() > 4 else h", "h = torch.where(h.max() > 4, h * self.gain, h)"
    return open_questions(*(PROPERTY.format(body=body, line=line) for line in lines))


@pytest.mark.parametrize(
    "body",
    [
        "return self.history[-1]",
        "assert self.history\n        return 2.0",
        "raise RuntimeError",
        "return next(iter(self.history))",
    ],
)
def test_a_property_that_may_raise_is_asked_about(body: str):
    (question,) = about_property(body)
    assert "`self.gain`" in question


@pytest.mark.parametrize("body", ["return 2.0", "return len(self.history)", "return self.history[1:]"])
def test_a_property_that_computes_is_not(body: str):
    assert about_property(body) == ()


# Other callers

SHARED = """\
import {package} as np
import torch

def unit(x):
    {line}
    return x

def load(path):
    return unit(np.load(path))

def main(x):
    return unit(x)
"""


def about_callers(package: str) -> tuple[str, ...]:
    lines = "x = x / 255 if x.max() > 1 else x", "x = torch.where(x.max() > 1, x / 255, x)"
    return open_questions(*(SHARED.format(package=package, line=line) for line in lines))


def test_a_caller_that_uses_arrays_is_asked_about():
    (question,) = about_callers("numpy")
    assert "line 9" in question


def test_a_caller_of_another_package_is_not():
    assert about_callers("torch.fft") == ()


NUMBERED = """\
import torch

def soft(v):
    {line}
    return y

class Net(torch.nn.Module):
    def forward(self, x):
        return x * soft(x.abs().mean())

{caller}
"""


def about_numbers(caller: str) -> tuple[str, ...]:
    lines = "y = 2 * v if v > 1 else v + 1", "y = torch.where(torch.as_tensor(v > 1).reshape(()), 2 * v, v + 1)"
    return open_questions(*(NUMBERED.format(caller=caller, line=line) for line in lines))


@pytest.mark.parametrize(
    "caller",
    [
        "def rate_at(step):\n    return soft(step / 100)",
        "def rates():\n    return [soft(each) for each in range(3)]",
        "def rate_of(size: int):\n    return soft(size)",
        "def rate_of(size=8):\n    half = size / 2\n    return soft(half)",
        "RATE = soft(0.5)",
    ],
)
def test_a_caller_that_passes_numbers_is_asked_about(caller: str):
    assert any("with tensors" in each for each in about_numbers(caller))


@pytest.mark.parametrize(
    "caller",
    [
        "def rate_of(x):\n    return soft(x)",
        "def rate_of(x):\n    return soft(x.mean() / 100)",
        "def main():\n    return soft(torch.rand(3).max())",
    ],
)
def test_a_caller_that_may_pass_tensors_is_not(caller: str):
    assert about_numbers(caller) == ()


@pytest.mark.parametrize(
    "use",
    [
        "schedule = torch.optim.lr_scheduler.LambdaLR(None, soft)",
        "def rates(): return list(map(soft, range(3)))",
        "rate = functools.partial(soft)",
        "class Wrapped(torch.Tensor): pass",
        "class Duck:\n    @classmethod\n    def __torch_function__(cls, *args): pass",
    ],
)
def test_what_gets_a_changed_function_is_asked_about(use: str):
    assert len(about_numbers(use)) == 1


def test_code_of_the_file_that_gets_a_changed_function_is_run():
    assert about_numbers("class Block:\n    def __init__(self, act): pass\nblock = Block(soft)") == ()
    assert about_numbers("compiled = torch.compile(soft)") == ()


SCALED = """\
import numpy as np
import torch

class Net(torch.nn.Module):
    def __init__(self, scale=torch.tensor(2.0)):
        super().__init__()
        self.scale = scale
        self.own = torch.ones(1)

    def forward(self, x):
        return x * {read}

def helper(x, t):
    return x * {read}
"""


@pytest.mark.parametrize(
    ("read", "asked"), [("self.scale", 2), ("self.scale[0].max()", 2), ("self.own", 0), ("x.norm()", 0), ("t", 1)]
)
def test_an_array_may_have_the_item(read: str, asked: int):
    found = open_questions(SCALED.format(read=f"{read}.item()"), SCALED.format(read=f"{read}.detach()"))
    assert len([each for each in found if "array" in each]) == min(asked, 1)


CHOICE = """\
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        {line}
        return y

{use}
"""


def about_use(use: str, after: str = "y = torch.cond(x.mean() > 0, lambda: x + 1, lambda: x - 1)") -> tuple[str, ...]:
    before = "y = x + 1 if x.mean() > 0 else x - 1"
    return open_questions(*(CHOICE.format(line=line, use=use) for line in (before, after)))


@pytest.mark.parametrize(
    "use",
    [
        "def export(): return torch.jit.script(Net())",
        "from torch.jit import trace\ndef export(x): return trace(Net(), x)",
        "def curvature(f, x): return torch.autograd.functional.hessian(f, x)",
        "from torch.func import functional_call\ndef f(m, p, x): return functional_call(m, p, (x,))",
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(4)",
    ],
)
def test_what_refuses_cond_is_asked_about(use: str):
    (question, *_) = about_use(use)
    assert "torch.cond" in question
    assert about_use(use, "y = torch.where(x.mean() > 0, x + 1, x - 1)") == ()


def test_other_uses_of_a_model_do_not_matter_to_cond():
    assert about_use("def trace(x): return x\ndef run(x): return trace(Net()(x))") == ()


SIZE = """\
import torch

class Net(Module):
    def forward(self, x):
        {line}
        return x / n

{use}
"""


@pytest.mark.parametrize(("use", "count"), [("def save(net): torch.jit.script(net).save('a')", 1), ("net = Net()", 0)])
def test_torchscript_does_not_know_each_function_of_python(use: str, count: int):
    before, after = "n = int(torch.tensor(x.shape).prod())", "n = math.prod(x.shape)"
    assert len(open_questions(*(SIZE.format(line=line, use=use) for line in (before, after)))) == count


# Numbers beside chosen elements

LEAKY = """\
import torch

class Net(Module):
    def __init__(self, {given}):
        self.slope = {slope}

    def forward(self, y):
        {line}
        return y
"""


@pytest.mark.parametrize(
    ("given", "slope", "count"),
    [("slope", "slope", 1), ("slope=0.1", "slope", 1), ("slope: float = 0.1", "slope", 0), ("dim", "0.1", 0)],
)
def test_an_attribute_beside_chosen_elements_may_be_a_row_of_numbers(given: str, slope: str, count: int):
    before, after = "y[y < 0] = y[y < 0] * self.slope", "y.copy_(torch.where(y < 0, y * self.slope, y))"
    texts = (LEAKY.format(given=given, slope=slope, line=line) for line in (before, after))
    assert len(open_questions(*texts)) == count


# Constructors and imports

LATE = """\
import torch
{top}
class M:
    def __init__(self):
        self.fc = 1{init}

    def forward(self, x):
        {line}
        return x
"""


def about_constructor(value: str) -> tuple[str, ...]:
    before = LATE.format(top="", init="", line=f'x = x * getattr(self, "scale", {value})')
    return open_questions(
        before, LATE.format(top="", init=f"\n        self.scale = {value}", line="x = x * self.scale")
    )


def test_an_attribute_that_older_pickles_lack_is_asked_about():
    (question,) = about_constructor("1.0")
    assert "pickled" in question


def test_a_tensor_that_a_constructor_makes_now_is_asked_about():
    of_device, of_pickles = about_constructor("torch.ones(3)")
    assert "device('meta')" in of_device
    assert "pickled" in of_pickles


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("import math", 0),
        ("import numpy as np", 1),
        ("from math import pi", 0),
        ("from torch import nn", 0),
        ("from settings import SCALE", 2),
        ("import resource", 1),
        ("from torch.utils.tensorboard import SummaryWriter", 1),
        ("from sys import stdout", 1),
        ("import sys", 0),
    ],
)
def test_what_the_load_of_a_file_imports_now(line: str, asked: int):
    before = LATE.format(top="", init="", line=line)
    assert len(open_questions(before, LATE.format(top=line, init="", line="pass"))) == asked


def test_a_package_that_the_file_loads_already_is_there():
    before = LATE.format(top="import numpy\n", init="", line="import numpy as np")
    assert open_questions(before, LATE.format(top="import numpy\nimport numpy as np\n", init="", line="pass")) == ()


@pytest.mark.parametrize(("given", "asked"), [("h, 0.5, 2.0", True), ("h, low=0.5, high=2", True), ("h, *pair", False)])
def test_a_choice_of_numbers_that_a_call_passes_is_asked_about(given: str, asked: bool):
    text = "import torch\n\ndef choose(h, low, high):\n    y = {line}\n    return h * y\n\nr = choose({given})\n"
    lines = "low if h.sum() > 0 else high", "torch.where(h.sum() > 0, low, high)"
    found = open_questions(*(text.format(line=line, given=given) for line in lines))
    assert any("two numbers" in each for each in found) is asked


# Numbers

CHOSEN_NUMBERS = """\
import torch

class Net(torch.nn.Module):
    def __init__(self, low=0.5):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)
        self.low = low
        self.high = 2.0
        self.gain = torch.nn.Parameter(torch.ones(()))
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x, scale):
        h = self.lin(x)
        {line}
        return h * y
"""


@pytest.mark.parametrize(
    ("yes", "no", "asked"),
    [
        ("self.low", "self.high", True),
        ("self.low * 2", "min(self.high, 1)", True),
        ("scale", "1 - scale", True),
        ("self.low", "self.gain", False),
        ("self.low + self.shift", "self.high", False),
        ("h", "self.low", False),
        ("x * scale", "x + scale", False),
        ("torch.relu(scale)", "scale", False),
    ],
)
def test_a_choice_of_numbers_is_asked_about(yes: str, no: str, asked: bool):
    lines = f"y = {yes} if h.sum() > 0 else {no}", f"y = torch.where(h.sum() > 0, {yes}, {no})"
    found = open_questions(*(CHOSEN_NUMBERS.format(line=line) for line in lines))
    assert any("two numbers" in each for each in found) is asked


# Numbers of the model beside what callers pass


HOPS = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x, lengths):
        hop = self.hop{read}
        {line}
"""


def about_lengths(line: str) -> tuple[str, ...]:
    texts = (HOPS.format(read=read, line=line) for read in (".item()", ".detach().clone().reshape(())"))
    return open_questions(*texts)


@pytest.mark.parametrize("line", ["return self.fc(x), lengths / hop", "return self.fc(x), 2 + hop * lengths"])
def test_lengths_may_stay_on_the_cpu(line: str):
    (question,) = about_lengths(line)
    assert "`lengths` always on the device of the model" in question


@pytest.mark.parametrize(
    "line",
    [
        "return self.fc(x / hop), lengths",
        "return self.fc(x) / hop",
        "return self.fc(x), self.embed(lengths) * hop",
        "return self.fc(x) + self.embed(lengths), lengths / hop",
        "return x / hop, lengths / hop",  # nothing says which of both is the input
    ],
)
def test_what_the_model_computes_with_is_on_its_device(line: str):
    assert about_lengths(line) == ()


# Layers and functions that a caller chooses

ROUTED = """\
import torch
from torch import nn

def choose(x, first, second):
    {function}

class Router(nn.Module):
    def __init__(self, adapter, dim):
        super().__init__()
        self.adapter = adapter
        self.plain = nn.Linear(dim, dim)
        self.experts = nn.ModuleList([nn.Linear(dim, dim), nn.Linear(dim, dim)])

    def forward(self, x, number):
        layer = self.experts[number]
        {method}
        return y
"""


def about_chosen(*, function: str = "", method: str = "") -> tuple[str, ...]:
    """Ask about one choice, in a function or in a method, that becomes torch.where."""
    texts = []
    for choice in ("{} if x.sum() > 0 else {}", "torch.where(x.sum() > 0, {}, {})"):
        names = {"function": function, "method": method}
        sides = {key: choice.format(*value.split("|")) if value else "x" for key, value in names.items()}
        texts.append(ROUTED.format(function=f"return {sides['function']}", method=f"y = {sides['method']}"))
    return open_questions(*texts)


def test_functions_that_a_caller_chooses_are_asked_about():
    first, second = about_chosen(function="first(x)|second(x)")
    assert first.startswith("Can `first` run in each call, whatever a caller chooses for it?")
    assert second.startswith("Can `second` run in each call")


@pytest.mark.parametrize("called", ["self.adapter", "layer", "self.experts[number]"])
def test_a_layer_that_a_caller_chooses_is_asked_about(called: str):
    (question,) = about_chosen(method=f"{called}(x)|self.plain(x)")
    assert question.startswith(f"Can `{called}` run in each call")


def test_layers_that_the_class_makes_and_methods_of_arguments_are_not():
    assert about_chosen(method="self.plain(x)|self.experts[0](x)") == ()
    assert about_chosen(method="x.relu()|torch.tanh(x)") == ()
