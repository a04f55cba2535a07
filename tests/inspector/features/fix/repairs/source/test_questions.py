"""A repair asks where it cannot know what the caller does with a result."""

import pytest

from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace
from ctrace.inspector.features.fix.repairs.source import bounded_loop, tensor_branch, tensor_cond

ASKS = {
    "an argument": "def f(x):\n    if x.sum() > 0:\n        x = x * 2\n    return x\n",
    "an argument, returned twice": "def f(x):\n    if x.sum() > 0:\n        return x * 2\n    return x\n",
    "the result of a module": "def f(m, x):\n    x = m(x)\n    if x.sum() > 0:\n        x = x * 2\n    return x\n",
}
ASKS_NOTHING = {
    "the result of an op": "def f(x):\n    y = x + 1\n    if y.sum() > 0:\n        y = y * 2\n    return y\n",
    "an argument, only read": "def f(x):\n    if x.sum() > 0:\n        x = x * 2\n    return x + 1\n",
}


IN_PLACE = """import torch.nn.functional as F
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = {layer}

    def forward(self, x):
        y = x * 2
        if y.sum() > 0:
            h = y
        else:
            h = y * 3
        {call}
        return h + y
"""


def questions(source: str) -> list[str | None]:
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "if " in text)
    place = RepairPlace("/model.py", f"import torch\n{source}", line + 1, "")
    return [rewrite.question for rewrite in tensor_branch.REPAIR.find(place)]


@pytest.mark.parametrize("name", ASKS)
def test_asks_where_somebody_else_may_hold_what_is_returned(name: str):
    assert questions(ASKS[name]) == ["May the result be a new tensor where it was `x` itself?"]


@pytest.mark.parametrize("name", ASKS_NOTHING)
def test_asks_nothing_where_nobody_can_tell(name: str):
    assert questions(ASKS_NOTHING[name]) == [None]


@pytest.mark.parametrize(
    ("layer", "call"),
    [
        ("nn.SiLU(inplace=True)", "self.act(h)"),
        ("nn.SiLU(True)", "self.act(h)"),
        ("nn.Dropout(0.5, True)", "self.act(h)"),
        ("nn.Dropout(*options)", "self.act(h)"),
        ("nn.SiLU()", "F.relu(h, True)"),
        ("nn.SiLU()", "F.relu(h, inplace=True)"),
    ],
)
def test_asks_where_a_later_call_may_write_in_place(layer: str, call: str):
    assert questions(IN_PLACE.format(layer=layer, call=call)) == [
        "May the result be a new tensor where it was `y` itself?"
    ]


@pytest.mark.parametrize("layer", ["nn.SiLU()", "nn.Dropout()", "nn.Dropout(0.5)", "nn.Linear(4, 4, False)"])
def test_asks_nothing_where_a_layer_only_computes(layer: str):
    assert questions(IN_PLACE.format(layer=layer, call="self.act(h)")) == [None]


@pytest.mark.parametrize(("bound", "is_asked"), [("8", False), ("9", True), ("limit", True)])
def test_a_loop_of_many_rounds_may_have_ended_early(bound: str, is_asked: bool):
    source = (
        "import torch\ndef f(h, limit):\n    h = h + 1\n    i = 0\n"
        f"    while h.norm() > 1 and i < {bound}:\n        h = h * 0.5\n        i += 1\n    return h * 1\n"
    )
    (rewrite,) = bounded_loop.REPAIR.find(RepairPlace("/model.py", source, 5, ""))
    assert rewrite.question is None
    assert bool(rewrite.costs) is is_asked


LAYERS = """\
import torch
from torch import nn


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            y = self.a(x)
        else:
            y = self.b(x)
        return y * 2
"""


def test_asks_whether_eager_calls_may_compile():
    """The first eager call of torch.cond compiles: the fastest of several calls does not show it."""
    place = RepairPlace("/model.py", LAYERS, 12, "")
    (rewrite,) = tensor_cond.REPAIR.find(place)
    assert rewrite.costs.startswith("May eager calls compile, too?")
