"""Programs for `fake_spots.py`: each asks for a value that does not exist under `--fake`, in the line marked `# asks`.

`model_of` writes a model file of one spot. A spot is code in a place: in `forward`, in a function that it calls, in a
hook or a backward, in the constructor, in `inputs()`, or at the top of the file.
"""

from dataclasses import dataclass

MARK = "# asks"
SCALARS = "torch._dynamo.config.capture_scalar_outputs = True"
SHAPES = "torch._dynamo.config.capture_dynamic_output_shape_ops = True"

STOPS, SYMBOL, NEEDS_NONE = "stops", "symbol", "needs none"


@dataclass(frozen=True)
class Spot:
    """Code that asks for a value, where it stands, and what has to become of it."""

    expected: str
    """`stops` at the marked line; `symbol`: torch carries the value; `needs none`: nothing asks for a value."""
    forward: str = "return self.last(h)"
    helper: str = ""
    init: str = ""
    inputs: str = ""
    config: str = ""
    top: str = ""
    train: bool = False


def _forward(expected: str, code: str, config: str = "", *, train: bool = False) -> Spot:
    return Spot(expected, forward=code, config=config, train=train)


def _helper(code: str, config: str = "", expected: str = STOPS) -> Spot:
    return Spot(expected, forward="return self.last(helped(h, ids, mask))", helper=code, config=config)


SPOTS: dict[str, Spot] = {
    # In forward, as torch is by default: the graph breaks, and the eager code between two graphs asks.
    "item": _forward(STOPS, "n = h.sum().item()  # asks\nreturn self.last(h * n)"),
    "if": _forward(STOPS, "if h.sum() > 0:  # asks\n    h = h * 2\nreturn self.last(h)"),
    "while": _forward(STOPS, "while h.sum() > 1:  # asks\n    h = h / 2\nreturn self.last(h)"),
    "not": _forward(STOPS, "flag = not h.max()  # asks\nreturn self.last(h) if flag else h"),
    "and": _forward(STOPS, "good = mask.any() and True  # asks\nreturn self.last(h * good)"),
    "bool": _forward(STOPS, "flag = bool(mask.any())  # asks\nreturn self.last(h) if flag else h"),
    "int": _forward(STOPS, "n = int(ids.max())  # asks\nreturn self.last(h * n)"),
    "float": _forward(STOPS, "n = float(h.mean())  # asks\nreturn self.last(h * n)"),
    "tolist": _forward(STOPS, "n = ids.tolist()  # asks\nreturn self.last(h * n[0])"),
    "numpy": _forward(STOPS, "n = h.detach().numpy().mean()\nn = float(n)  # asks\nreturn self.last(h * n)"),
    "an extension reads memory": _forward(STOPS, "torch._C._to_dlpack(h.detach())  # asks\nreturn self.last(h)"),
    "nonzero": _forward(STOPS, "rows = mask.nonzero()  # asks\nreturn self.last(h[rows[:, 0]])"),
    "mask as index": _forward(STOPS, "h = h[mask[:, 0]]  # asks\nreturn self.last(h)"),
    "masked_select": _forward(STOPS, "picked = h.masked_select(mask)  # asks\nreturn self.last(h) * picked.sum()"),
    "where, one argument": _forward(STOPS, "rows = torch.where(mask[:, 0])[0]  # asks\nreturn self.last(h[rows])"),
    "unique": _forward(STOPS, "kinds = torch.unique(ids)  # asks\nreturn self.last(h[kinds % 4])"),
    "unique_consecutive": _forward(
        STOPS, "kinds = torch.unique_consecutive(ids)  # asks\nreturn self.last(h[kinds % 4])"
    ),
    "repeat_interleave": _forward(STOPS, "h = torch.repeat_interleave(h, ids, dim=0)  # asks\nreturn self.last(h)"),
    "bincount": _forward(STOPS, "counts = torch.bincount(ids)  # asks\nreturn self.last(h) * counts.sum()"),
    "one_hot": _forward(STOPS, "hot = nn.functional.one_hot(ids)  # asks\nreturn self.last(h) * hot.sum()"),
    "index of a list": _forward(STOPS, "n = [1, 2, 3, 4][ids[0] % 4]  # asks\nreturn self.last(h * n)"),
    "format": _forward(STOPS, 'text = f"{h.sum():.2f}"  # asks\nreturn self.last(h * len(text))'),
    "range": _forward(STOPS, "for _ in range(ids.max()):  # asks\n    h = h + 1\nreturn self.last(h)"),
    "end of a slice": _forward(STOPS, "h = h[: ids[0]]  # asks\nreturn self.last(h)"),
    "arange": _forward(STOPS, "steps = torch.arange(ids.max())  # asks\nreturn self.last(h) * steps.sum()"),
    "size of zeros": _forward(STOPS, "rows = torch.zeros(ids.max(), 2)  # asks\nreturn self.last(h) + rows.sum()"),
    "equal": _forward(STOPS, "same = torch.equal(h, h * 2)  # asks\nreturn self.last(h) if same else h"),
    "allclose": _forward(STOPS, "same = torch.allclose(h, h * 2)  # asks\nreturn self.last(h) if same else h"),
    "in": _forward(STOPS, "found = 3 in ids  # asks\nreturn self.last(h) if found else h"),
    "printed": _forward(STOPS, 'print("loss", h.sum().item())  # asks\nreturn self.last(h)'),
    "a check for NaN": _forward(
        STOPS, 'if torch.isnan(h).any():  # asks\n    raise ValueError("NaN")\nreturn self.last(h)'
    ),
    "caught": _forward(
        STOPS,
        "try:\n    n = h.sum().item()  # asks\nexcept Exception:\n    n = 1\nreturn self.last(h * n)",
    ),
    "k of topk": _forward(STOPS, "top = h.topk(int(ids[0]))  # asks\nreturn self.last(h) + top.values.sum()"),
    "padding": _forward(STOPS, "h = nn.functional.pad(h, (0, 0, 0, ids.max().item()))  # asks\nreturn self.last(h)"),
    "lengths of a packed sequence": _forward(
        STOPS,
        "packed = nn.utils.rnn.pack_padded_sequence(h[None], ids[:1] + 1, True)  # asks\n"
        "return self.last(h) + packed.data.sum()",
    ),
    # The routers of mixtures of experts.
    "router by where": _forward(
        STOPS,
        "for expert in range(4):\n"
        "    rows = torch.where(ids == expert)[0]  # asks\n"
        "    h = h.index_add(0, rows, self.last(h[rows]))\n"
        "return h",
    ),
    "router by hit experts": _forward(
        STOPS,
        "hit = nn.functional.one_hot(ids, 8).sum(0).nonzero()  # asks\n"
        "for expert in hit:\n"
        "    h = h + expert\n"
        "return self.last(h)",
    ),
    "router by counts": _forward(
        STOPS,
        "counts = torch.bincount(ids, minlength=8).tolist()  # asks\n"
        "return torch.cat([self.last(part) for part in h.split(counts)])",
    ),
    # In forward, where torch is set to carry the value.
    "item, carried": _forward(SYMBOL, "n = h.sum().item()  # asks\nreturn self.last(h * n)", SCALARS),
    "int, carried": _forward(SYMBOL, "n = int(ids.max())  # asks\nreturn self.last(h * n)", SCALARS),
    "tolist, carried": _forward(SYMBOL, "n = ids.tolist()  # asks\nreturn self.last(h * n[0])", SCALARS),
    "nonzero, carried": _forward(
        SYMBOL, "rows = mask.nonzero()  # asks\nreturn self.last(h[rows[:, 0]]).sum()", SHAPES
    ),
    "mask as index, carried": _forward(SYMBOL, "h = h[mask[:, 0]]  # asks\nreturn self.last(h).sum()", SHAPES),
    "masked_select, carried": _forward(
        SYMBOL, "picked = h.masked_select(mask)  # asks\nreturn self.last(h) * picked.sum()", SHAPES
    ),
    "unique, carried": _forward(
        SYMBOL, "kinds = torch.unique(ids)  # asks\nreturn self.last(h[kinds % 4]).sum()", SHAPES
    ),
    "repeat_interleave, carried": _forward(
        SYMBOL, "h = torch.repeat_interleave(h, ids, dim=0)  # asks\nreturn self.last(h).sum()", SHAPES
    ),
    "size of a result, carried": _forward(STOPS, "rows = mask.nonzero()  # asks\nreturn rows", SHAPES),
    "arange, carried": _forward(
        SYMBOL, "steps = torch.arange(ids.max().item())  # asks\nreturn self.last(h) * steps.sum()", SCALARS
    ),
    "training, carried": _forward(SYMBOL, "n = ids.max().item()  # asks\nreturn self.last(h * n)", SCALARS, train=True),
    # What looks like a question and is none.
    "where, three arguments": _forward(NEEDS_NONE, "return self.last(torch.where(h > 0, h, h * 2))"),
    "masked assignment": _forward(NEEDS_NONE, "h = h.clone()\nh[mask] = 0\nreturn self.last(h)"),
    "assert": _forward(NEEDS_NONE, "assert h.sum() > 0\nreturn self.last(h)"),
    "cond": _forward(NEEDS_NONE, "return self.last(torch.cond(h.sum() > 0, torch.sin, torch.cos, (h,)))"),
    "max of Python": _forward(NEEDS_NONE, "top = max(h[0, :3])\nreturn self.last(h) * top"),
    "one_hot, checked": _forward(NEEDS_NONE, "return self.last(h) * nn.functional.one_hot(ids, 8).sum()"),
    "inverse": _forward(NEEDS_NONE, "return self.last(h) + torch.linalg.inv(h[:, :4]).sum()"),
    "a constant": _forward(NEEDS_NONE, "n = torch.arange(5).sum().item()\nreturn self.last(h * n)"),
    # In functions that forward calls.
    "helper: item": _helper("n = h.sum().item()  # asks\nreturn h * n"),
    "helper: if": _helper("if h.sum() > 0:  # asks\n    return h * 2\nreturn h"),
    "helper: tolist": _helper("return h * sum(ids.tolist())  # asks"),
    "helper: two deep": _helper("def inner(t):\n    return t.max().item()  # asks\nreturn h * inner(h)"),
    "helper: lambda": _helper("scale = lambda t: t.item()  # asks\nreturn h * scale(h.sum())"),
    "helper: generator": _helper("return h * sum(t.item() for t in h.sum(1))  # asks"),
    "helper: not compiled": Spot(
        STOPS,
        forward="return self.last(helped(h, ids, mask))",
        helper="n = h.sum().item()  # asks\nreturn h * n",
        top="DECORATED = torch._dynamo.disable",
    ),
    "helper: without grad": _helper("with torch.no_grad():\n    n = h.norm().item()  # asks\nreturn h / n"),
    "helper: carried": _helper("n = h.sum().item()  # asks\nreturn h * n", SCALARS, SYMBOL),
    # In hooks and backward passes.
    "hook": Spot(STOPS, init="self.layer.register_forward_hook(lambda m, a, out: out * out.max().item())  # asks"),
    "hook of a gradient": Spot(
        STOPS,
        forward="h.register_hook(lambda g: g / g.norm().item())  # asks\nreturn self.last(h)",
        train=True,
    ),
    # In the constructor, in inputs(), at the top.
    "constructor: item": Spot(STOPS, init="self.scale = self.layer.weight.std().item()  # asks"),
    "constructor: if": Spot(STOPS, init="if self.layer.weight.sum() > 0:  # asks\n    self.scale = 1"),
    "constructor: numpy": Spot(STOPS, init="self.scale = self.layer.weight.detach().numpy()  # asks"),
    "constructor: random": Spot(STOPS, init="self.order = torch.randperm(8).tolist()  # asks"),
    "constructor: nonzero": Spot(STOPS, init="self.kept = (self.layer.weight[0] > 0).nonzero()  # asks"),
    "constructor: constant": Spot(NEEDS_NONE, init="self.rates = [rate.item() for rate in torch.linspace(0, 0.1, 3)]"),
    "constructor: orthogonal": Spot(NEEDS_NONE, init="nn.init.orthogonal_(self.last.weight[:64, :64])"),
    "inputs: int": Spot(STOPS, inputs="longest = int(torch.randint(1, 5, ()))  # asks"),
    "inputs: mask": Spot(STOPS, inputs="picked = torch.randn(8)[torch.rand(8) > 0.5]  # asks"),
    "inputs: max": Spot(STOPS, inputs="longest = torch.randint(1, 5, (4,)).max().item()  # asks"),
    "top: tolist": Spot(STOPS, top="ORDER = torch.randperm(4).tolist()  # asks"),
}


def model_of(spot: Spot, width: int) -> tuple[str, int | None]:
    """Return the model file of a spot, and the line that asks."""
    text = f"""\
import torch
from torch import nn
{spot.config}
WIDTH = {width}
DECORATED = lambda function: function
{spot.top}

@DECORATED
def helped(h, ids, mask):
{_indented(spot.helper or "return h", 4)}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
{_indented(spot.init or "pass", 8)}

    def forward(self, x, ids, mask):
        h = self.layer(x)
{_indented(spot.forward, 8)}

model = Model()

def inputs():
{_indented(spot.inputs or "pass", 4)}
    return torch.randn(4, WIDTH), torch.randint(0, 4, (4,)), torch.rand(4, WIDTH) > 0.5
"""
    marked = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)]
    return text, marked[0] if marked else None


def _indented(code: str, by: int) -> str:
    return "\n".join(" " * by + line for line in code.splitlines())
