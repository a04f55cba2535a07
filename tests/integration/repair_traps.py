"""Rewrites that look right and are not: each is a model, and what a hasty repair makes of its `forward`."""

from dataclasses import dataclass, field

HEAD = """\
import copy, logging, warnings
import torch
from torch import nn

log = logging.getLogger("net")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("flag", torch.zeros(3, dtype=torch.int64))
        self.count = 0
        self.cache = []
{init}

    def forward(self, x):
{body}


torch.manual_seed(0)
model = Net(){mode}


def inputs():
    return (torch.randn(6, 4){more},)
"""


@dataclass(frozen=True)
class Trap:
    """A model before and after, and the checks one of which must fail; none: the change is right."""

    name: str
    before: str
    after: str
    checks: tuple[str, ...] = ()
    init: str = ""
    after_init: str | None = None
    mode: str = ""
    more: str = field(default="")

    def text(self, body: str, init: str) -> str:
        """Return the model file with a body of `forward`."""

        def indented(text: str) -> str:
            return "\n".join(f"        {line}" for line in text.strip("\n").split("\n"))

        return HEAD.format(body=indented(body), init=indented(init) if init else "", mode=self.mode, more=self.more)

    def texts(self) -> tuple[str, str]:
        """Return the file before and after."""
        init = self.init if self.after_init is None else self.after_init
        return self.text(self.before, self.init), self.text(self.after, init)


WHERE = "c = x.sum() > 0\n"
TRAPS = (
    Trap("dtype", "if x.sum() > 0:\n    return x * 2\nreturn x.double()", "return torch.where(x.sum() > 0, x * 2, x.double())", ("outputs_equal",)),
    Trap("alias", "if x.sum() > 0:\n    return x * 2\nreturn x", "return torch.where(x.sum() > 0, x * 2, x)", ("outputs_equal",)),
    Trap("exception", "if x.abs().sum() > 1000:\n    raise ValueError('too large')\nreturn x * 2", "return x * 2", ("exceptions_equal",)),
    Trap("nan", "if x.sum() > 0:\n    y = x * 2\nelse:\n    y = x * 3\nreturn y", "return torch.where(x.sum() <= 0, x * 3, x * 2)", ("outputs_equal",), more=".abs()"),
    Trap("gradient", "h = self.linear(x)\nif (h > 0).all():\n    y = h.sqrt()\nelse:\n    y = h * 0.5\nreturn y", "h = self.linear(x)\nreturn torch.where((h > 0).all(), h.sqrt(), h * 0.5)", ("gradients_equal",)),
    Trap("empty", "if x.numel() and x.max() > 0:\n    y = x * 2\nelse:\n    y = x * 3\nreturn y", "return torch.where(x.max() > 0, x * 2, x * 3)", ("exceptions_equal",)),
    Trap("in_place", "if x.sum() > 0:\n    x[0].mul_(2)\nreturn x * 1", "c = x.sum() > 0\nx = torch.cat([torch.where(c, x[:1] * 2, x[:1]), x[1:]])\nreturn x * 1", ("inputs_equal",)),
    Trap("random", "y = x * 1\nif x.sum() > 0:\n    y = x + torch.rand_like(x)\nreturn y", "return torch.where(x.sum() > 0, x + torch.rand_like(x), x * 1)", ("random_equal",)),
    Trap("counter", "if x.sum() > 0:\n    self.count += 1\nreturn x * 2", "self.count += 1\nreturn x * 2", ("state_equal", "nothing_new")),
    Trap("print", "if x.sum() > 0:\n    print('positive')\nreturn x * 2", "return x * 2", ("prints_equal",)),
    Trap("log", "if x.sum() > 0:\n    log.warning('positive')\nreturn x * 2", "return x * 2", ("logs_equal",)),
    Trap("warning", "if x.sum() > 0:\n    warnings.warn('positive')\nreturn x * 2", "return x * 2", ("warnings_equal",)),
    Trap("unreached_and_wrong", "if self.flag.sum() > 3:\n    y = x * 2\nelse:\n    y = x * 3\nreturn y", "return x * 3", ("outputs_equal",)),
    Trap("truncation", "n = int(x.sum())\nreturn x * n", "return x * x.sum()", ("outputs_equal", "exceptions_equal")),
    Trap("short_count", "h = self.linear(x)\nn = x.isfinite().sum().item()\nreturn h / n", "h = self.linear(x)\nn = x.isfinite().sum().to(h.dtype)\nreturn h / n", ("outputs_equal", "gradients_equal")),
    Trap("number_type", "return x * 2, x.max().item()", "return x * 2, x.max()", ("outputs_equal",)),
    Trap("detach", "n = x.sum().item()\nreturn self.linear(x) * n", "return self.linear(x) * x.sum()", ("outputs_equal", "gradients_equal"), more=".requires_grad_()"),
    Trap("stride", "if x.sum() > 0:\n    y = (x * 2).t().contiguous()\nelse:\n    y = (x * 2).t()\nreturn y", "return (x * 2).t()", ("outputs_equal",)),
    Trap("buffer", "if x.sum() > 0:\n    self.seen.add_(1)\nreturn x * 2", "self.seen.add_(1)\nreturn x * 2", ("state_equal",)),
    Trap("copy", "y = copy.deepcopy(x)\nif x.sum() > 0:\n    y.mul_(2)\nreturn y", "y = x\ny.mul_(torch.where(x.sum() > 0, 2, 1))\nreturn y", ("outputs_equal", "inputs_equal")),
    Trap("cache", "self.cache.append(x.sum().item())\nreturn x * len(self.cache)", "self.cache.append(x.sum())\nreturn x * len(self.cache)", ("state_equal", "outputs_equal", "finding_gone", "nothing_new")),
    Trap("once", "if x.sum() > 0 and self.count == 0:\n    print('first')\nself.count = self.count + 1\nreturn x * 2", "self.count = self.count + 1\nreturn x * 2", ("prints_equal", "nothing_new")),
    Trap("third_call", "if x.abs().sum() > 0:\n    y = x * (3 if self.seen > 1 else 2)\nelse:\n    y = x * 2\nself.seen.add_(1)\nreturn y", "self.seen.add_(1)\nreturn x * 2", ("outputs_equal",)),
    Trap("boolean_mean", "return x[x > 0].mean()", "m = (x > 0).float()\nreturn (x * m).sum() / m.sum()", ("outputs_equal",)),
    Trap("boolean_shape", "return x[x > 0]", "return torch.where(x > 0, x, 0)", ("outputs_equal",)),
    Trap("subclass", "if type(x) is torch.Tensor and x.sum() > 0:\n    return x * 2\nreturn x * 3", "return torch.where(x.sum() > 0, x * 2, x * 3)", ("outputs_equal", "both_sides")),
    Trap("training", "if self.training and x.sum() > 0:\n    return x * 2\nreturn x * 3", "return torch.where(x.sum() > 0, x * 2, x * 3)", ("outputs_equal", "both_sides", "finding_gone"), mode=".eval()"),
    Trap("infinity", "if x.sum() > 0:\n    y = x * 2\nelse:\n    y = x * 3\nreturn y", "c = (x.sum() > 0).to(x.dtype)\nreturn c * (x * 2) + (1 - c) * (x * 3)", ("outputs_equal", "gradients_equal")),
    Trap("views", "y = x\nif x.sum() > 0:\n    y = x[1:]\nreturn y", "return x", ("outputs_equal", "nothing_new")),
    Trap("drawn_parameter", "h = x.tanh()\nif torch.rand(()) < 0.5:\n    y = self.linear(h)\nelse:\n    y = h * 0.5\nreturn y", "h = x.tanh()\nreturn torch.where(torch.rand(()) < 0.5, self.linear(h), h * 0.5)", ("gradients_equal", "outputs_equal")),
    Trap("drawn_infinity", "h = self.linear(x)\nif torch.rand(()) < 0.5:\n    y = h * h\nelse:\n    y = -h\nreturn y", "h = self.linear(x)\nreturn torch.where(torch.rand(()) < 0.5, h * h, -h)", ("gradients_equal",)),
    Trap("kept_in_a_tuple", "h = self.linear(x)\nself.aux = (h.mean() * h.abs().sum().item(), 1)\nreturn h", "h = self.linear(x)\nself.aux = (h.mean() * h.abs().sum(), 1)\nreturn h", ("stored_gradients_equal",)),
    Trap("unused_gradient", "y = x * 2\nif x.sum() > 0:\n    y = self.linear(x)\nreturn y", "return torch.where(x.sum() > 0, self.linear(x), x * 2)", ("gradients_equal", "outputs_equal")),
    Trap("default_dtype", "n = self.seen.item()\nreturn (x > 0).long() * n", "n = self.seen.detach().to(torch.float32)\nreturn (x > 0).long() * n", ("outputs_equal",)),
    Trap("inference_tensor", "h = self.linear(x)\nif not torch.is_grad_enabled():\n    self.kept = x.detach().mean() * 2\nif h.sum() > 1e3:\n    h = h * self.kept\nreturn h * 2", "h = self.linear(x)\nif not torch.is_grad_enabled():\n    self.kept = x.detach().mean() * 2\nh = torch.where(h.sum() > 1e3, h * self.kept, h)\nreturn h * 2", ("exceptions_equal", "outputs_equal", "gradients_equal"), init="self.kept = torch.ones(())"),
)  # fmt: skip
RIGHT = (
    Trap("select", "h = self.linear(x)\nif h.sum() > 0:\n    y = h * 2\nelse:\n    y = h * 3\nreturn y", "h = self.linear(x)\nreturn torch.where(h.sum() > 0, h * 2, h * 3)"),
    Trap("drawn", "h = self.linear(x)\nif torch.rand(()) < 0.5:\n    y = h * 2\nelse:\n    y = -h\nreturn y", "h = self.linear(x)\nreturn torch.where(torch.rand(()) < 0.5, h * 2, -h)"),
    Trap("number", "return x / x.abs().sum().item()", "return x / x.abs().sum().detach()"),
    Trap("print_moved", "y = x * 2\nprint('shape', tuple(x.shape))\nreturn y", "y = x * 2\nreturn y", ("prints_equal",)),
)  # fmt: skip
