"""Programs whose memory goes to a line that is known by construction; the line ends in `# HERE`."""

from typing import NamedTuple


class MemoryCase(NamedTuple):
    """A model file or a program, and how it is asked."""

    source: str
    options: tuple[str, ...] = ()
    where: str = "alive"
    """What names the line first: `alive` at the peak, `eager_alive` at eager's, `eager_saved`, or `held` after calls."""
    name: str = "model.py"

    @property
    def line(self) -> int:
        """The line to name first."""
        return next(number for number, line in enumerate(self.source.splitlines(), 1) if line.endswith("# HERE"))


_HEAD = "import torch\nimport torch.nn.functional as F\n\n"


def _model(body: str, inputs: str, init: str = "", rest: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in init.splitlines())
    forward = "".join(f"        {line}\n" for line in body.splitlines())
    return (
        f"{_HEAD}class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n{lines}\n"
        f"    def forward(self, x):\n{forward}\nmodel = Net()\n\ndef inputs():\n    return ({inputs},)\n{rest}"
    )


CASES = {
    "cross-entropy over a large vocabulary": MemoryCase(
        _model(
            "h = self.embed(x)\nlogits = self.head(h)\n"
            "return F.cross_entropy(logits.float().view(-1, 128_000), x.view(-1))  # HERE",
            "torch.randint(0, 128_000, (1, 64))",
            "self.embed = torch.nn.Embedding(128_000, 8, dtype=torch.bfloat16)\n"
            "self.head = torch.nn.Linear(8, 128_000, bias=False, dtype=torch.bfloat16)",
        ),
        ("--train",),
    ),
    "softmax in fp32": MemoryCase(
        _model(
            "q = self.q(x)\ns = q @ q.transpose(-1, -2)\np = torch.softmax(s.float(), -1)  # HERE\n"
            "return p.to(torch.bfloat16) @ q",
            "torch.randn(4, 1024, 32, dtype=torch.bfloat16)",
            "self.q = torch.nn.Linear(32, 32, dtype=torch.bfloat16)",
        ),
        ("--train",),
        where="eager_alive",
    ),
    "saved mask": MemoryCase(
        _model(
            "h = self.a(x)\nout = x[:, 0]\nfor _ in range(4):\n"
            "    keep = (torch.rand(h.shape) > 0.1).float()  # HERE\n    out = out + (h * keep).sum(-1)\nreturn out",
            "torch.randn(2048, 16)",
            "self.a = torch.nn.Linear(16, 256)",
        ),
        ("--train",),
        where="eager_alive",
    ),
    "kept list of outputs": MemoryCase(
        _model(
            "y = torch.relu(self.a(x))\nself.seen.append(y)  # HERE\nreturn y",
            "torch.randn(256, 64)",
            "self.a = torch.nn.Linear(64, 64)\nself.seen = []",
        ),
        ("--calls", "3"),
        where="held",
    ),
    "growing cache": MemoryCase(
        _model(
            "k = self.a(x)\nself.steps += 1\nself.cache[self.steps] = k.detach()  # HERE\nreturn k.sum()",
            "torch.randn(256, 64)",
            "self.a = torch.nn.Linear(64, 64)\nself.cache = {}\nself.steps = 0",
        ),
        ("--calls", "3"),
        where="held",
    ),
    "fp8 copy of the weights": MemoryCase(
        _model(
            "h = x\nfor w in self.w:\n    w8 = w.to(torch.float8_e4m3fn)  # HERE\n"
            "    h = torch.relu(Scaled.apply(h, w8))\nreturn h",
            "torch.randn(4, 1024)",
            "self.w = torch.nn.ParameterList(torch.randn(1024, 1024) for _ in range(6))",
        ).replace(
            "class Net",
            "class Scaled(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, w8):\n"
            "        ctx.save_for_backward(x, w8)\n        return x @ w8.to(x.dtype)\n    @staticmethod\n"
            "    def backward(ctx, gradient):\n        x, w8 = ctx.saved_tensors\n"
            "        return gradient @ w8.to(x.dtype).t(), (x.t() @ gradient).to(w8.dtype)\n\nclass Net",
        ),
        ("--train",),
        where="eager_saved",
    ),
    "states of the optimizer": MemoryCase(
        f"{_HEAD}torch.manual_seed(0)\nmodel = torch.nn.Linear(512, 512)\nstep = torch.compile(model)\n"
        "optimizer = torch.optim.Adam(model.parameters(), foreach=False)\n"
        "for _ in range(2):\n    step(torch.randn(4, 512)).sum().backward()\n    optimizer.step()  # HERE\n"
        "    optimizer.zero_grad()\n",
        name="train.py",
    ),
    "gradient kept by a hook": MemoryCase(
        f"{_HEAD}kept = []\nmodel = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU())\n"
        "def keep(gradient):\n    kept.append(gradient)  # HERE\n"
        "for each in model.parameters():\n    each.register_hook(keep)\n"
        "def inputs():\n    return (torch.randn(128, 64),)\n",
        ("--train", "--calls", "3"),
        where="held",
    ),
    "closure that keeps a tensor": MemoryCase(
        f"{_HEAD}def made():\n    last = []\n    def remember(value):\n        last.append(value)  # HERE\n"
        "    return remember\nremember = made()\n"
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = torch.nn.Linear(64, 64)\n    def forward(self, x):\n        y = self.a(x)\n"
        "        remember(y.detach())\n        return y\n"
        "model = Net()\ndef inputs():\n    return (torch.randn(256, 64),)\n",
        ("--calls", "3"),
        where="held",
    ),
    "missing no_grad": MemoryCase(
        f"{_HEAD}torch.manual_seed(0)\nmodel = torch.nn.Linear(64, 2048)\nstep = torch.compile(model)\nlosses = []\n"
        "for _ in range(6):\n    y = torch.sigmoid(step(torch.randn(256, 64)))\n"
        "    losses.append((y * y).mean())  # HERE\n",
        where="held",
        name="evaluate.py",
    ),
    "donated buffer lost": MemoryCase(
        f"{_HEAD}torch.manual_seed(0)\nmodel = torch.nn.Sequential(torch.nn.Linear(64, 2048), torch.nn.GELU())\n"
        "step = torch.compile(model)\nfor _ in range(2):\n    loss = step(torch.randn(256, 64)).sum()\n"
        "    loss.backward(retain_graph=True)  # HERE\n    loss.backward()\n    model.zero_grad()\n",
        where="held",
        name="twice.py",
    ),
    "graph per length": MemoryCase(
        f"{_HEAD}model = torch.nn.Linear(64, 64)\n@torch.compile(dynamic=False)  # HERE\ndef step(x):\n"
        "    return torch.relu(model(x)).sum()\n"
        "for length in range(4, 10):\n    step(torch.randn(length, 64)).backward()\n",
        where="held",
        name="lengths.py",
    ),
    "list of a function that ends": MemoryCase(
        f"{_HEAD}def main():\n    torch.manual_seed(0)\n    model = torch.nn.Linear(64, 512)\n"
        "    step = torch.compile(model)\n    kept = []\n    for _ in range(5):\n"
        "        out = step(torch.randn(256, 64))\n        kept.append(out.detach())  # HERE\n"
        "        out.sum().backward()\n        model.zero_grad()\nmain()\n",
        where="held",
        name="train.py",
    ),
    "cache that becomes longer in a function that ends": MemoryCase(
        f"{_HEAD}@torch.no_grad()\ndef generate():\n    step = torch.compile(torch.nn.Linear(64, 64))\n"
        "    past = torch.zeros(0, 64)\n    for _ in range(5):\n"
        "        past = torch.cat([past, step(torch.randn(256, 64))])  # HERE\n    return past\ngenerate()\n",
        where="held",
        name="generate.py",
    ),
}
