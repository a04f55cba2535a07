"""The programs of `same_results.py`, one function each: small models and training loops that differ in what they do.

A function makes a `Model`, which `torch.compile` is given as a whole, or a `Loop`, which calls `torch.compile` itself.
`python _zoo.py NAME` runs one, twice in a row; SAME_RESULTS_MODE is the mode of torch.compile, and with
SAME_RESULTS_TRACE the first time is inside of `ctrace.trace(build=True)`. Loops get `compiled`, which is torch.compile
with that mode, and write what they keep with `write`.
"""

import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from _observed import install, watch_gradients, write
from torch import nn
from torch.nn import functional

if torch.cuda.is_available():
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def accumulate(out, x, size, block: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * block + tl.arange(0, block)
        mask = at < size
        tl.store(out + at, tl.load(out + at, mask=mask) + tl.load(x + at, mask=mask) * 2, mask=mask)


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MODE = os.environ.get("SAME_RESULTS_MODE", "default")
IS_GRAPHED = MODE in ("reduce-overhead", "max-autotune")
CALLS = 5


@dataclass(frozen=True)
class Model:
    """A model, what makes its arguments, and whether calls are followed by a backward."""

    model: Any
    inputs: Callable[[], tuple[Any, ...]]
    train: bool = False


@dataclass(frozen=True)
class Loop:
    """A program that compiles parts of itself."""

    run: Callable[[], None]


PROGRAMS: dict[str, Callable[[], Model | Loop]] = {}


def program(function: Callable[[], Model | Loop]) -> Callable[[], Model | Loop]:
    """Add a program to the study."""
    PROGRAMS[function.__name__] = function
    return function


def randn(*sizes: int, dtype: torch.dtype | None = None) -> Any:
    return torch.randn(*sizes, device=DEVICE, dtype=dtype)


def seeded(make: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    """Return what makes the same arguments, and leaves the same generators, each time."""

    def inputs() -> tuple[Any, ...]:
        torch.manual_seed(7)
        return make()

    return inputs


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, mode=None if MODE == "default" else MODE, **options)


def new_step() -> None:
    """Begin a step: results of the last one need not be valid anymore."""
    mark: Any = torch.compiler.cudagraph_mark_step_begin
    mark()


def kept(tensor: torch.Tensor) -> Any:
    """Copy a result that is read after later calls, as CUDA graphs require."""
    return tensor.clone() if IS_GRAPHED else tensor


class Net(nn.Module):
    """A module whose forward is a function."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)
        self.function = forward

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def mlp_of(*sizes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.GELU()]
    return nn.Sequential(*layers[:-1])


@program
def mlp() -> Model:
    return Model(mlp_of(256, 256, 256).eval(), seeded(lambda: (randn(64, 256),)))


@program
def mlp_no_grad() -> Model:
    net = mlp_of(256, 512, 64).requires_grad_(False)
    return Model(net, seeded(lambda: (randn(32, 256),)))


@program
def bf16() -> Model:
    net = mlp_of(128, 512, 128).to(torch.bfloat16).requires_grad_(False)
    return Model(net, seeded(lambda: (randn(64, 128, dtype=torch.bfloat16),)))


@program
def conv_eval() -> Model:
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3)).eval()
    return Model(net.requires_grad_(False), seeded(lambda: (randn(4, 3, 32, 32),)))


@program
def batch_norm_train() -> Model:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Model(net.train(), seeded(lambda: (randn(8, 3, 16, 16),)), train=True)


@program
def attention() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        q, k, v = self.qkv(x).view(2, 32, 3, 4, 16).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(2, 32, 64))

    net = Net(forward, qkv=nn.Linear(64, 192), out=nn.Linear(64, 64)).requires_grad_(False)
    return Model(net, seeded(lambda: (randn(2, 32, 64),)))


@program
def masked_softmax() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        scores = x @ x.transpose(-1, -2) / 8 + self.mask
        return scores.softmax(-1) @ x

    mask = torch.full((48, 48), float("-inf")).triu(1)
    return Model(Net(forward, mask=mask), seeded(lambda: (randn(4, 48, 64),)))


@program
def transformer_train() -> Model:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    return Model(layer.train(), seeded(lambda: (randn(2, 16, 64),)), train=True)


@program
def embedding() -> Model:
    def forward(self: Any, ids: torch.Tensor) -> Any:
        return self.norm(self.table(ids)).sum(1)

    net = Net(forward, table=nn.Embedding(1000, 64), norm=nn.LayerNorm(64)).requires_grad_(False)
    return Model(net, seeded(lambda: (torch.randint(0, 1000, (8, 24), device=DEVICE),)))


@program
def dropout() -> Model:
    net = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 64)).train()
    return Model(net, seeded(lambda: (randn(16, 64),)), train=True)


@program
def autocast_bf16() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            return self.net(x).float() * 2

    return Model(Net(forward, net=mlp_of(64, 128, 64)).requires_grad_(False), seeded(lambda: (randn(16, 64),)))


@program
def autocast_fp16() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        with torch.autocast(DEVICE, dtype=torch.float16 if DEVICE == "cuda" else torch.bfloat16):
            return self.net(x)

    return Model(Net(forward, net=mlp_of(64, 128, 64)), seeded(lambda: (randn(16, 64),)), train=True)


@program
def counter_buffer() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        self.count.add_(1)
        return x * self.count + self.average.mul_(0.9).add_(x.mean(0) * 0.1)

    return Model(Net(forward, count=torch.zeros(()), average=torch.zeros(32)), seeded(lambda: (randn(8, 32),)))


@program
def cache_in_place() -> Model:
    def forward(self: Any, x: torch.Tensor, at: torch.Tensor) -> Any:
        self.cache.index_copy_(0, at, self.proj(x))
        return self.cache.softmax(-1).sum(0)

    net = Net(forward, proj=nn.Linear(32, 32), cache=torch.zeros(16, 32)).requires_grad_(False)
    return Model(net, seeded(lambda: (randn(2, 32), torch.tensor([3, 5], device=DEVICE))))


@program
def graph_breaks() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        y = self.first(x).relu()
        torch._dynamo.graph_break()
        z = self.second(y).tanh()
        torch._dynamo.graph_break()
        return z + y, y * 2

    net = Net(forward, first=nn.Linear(64, 64), second=nn.Linear(64, 64)).requires_grad_(False)
    return Model(net, seeded(lambda: (randn(8, 64),)))


@program
def breaks_train() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        y = self.first(x).relu()
        torch._dynamo.graph_break()
        return self.second(y).tanh() + y

    return Model(Net(forward, first=nn.Linear(32, 32), second=nn.Linear(32, 32)), seeded(lambda: (randn(8, 32),)), True)


@program
def tied_weights() -> Model:
    def forward(self: Any, ids: torch.Tensor) -> Any:
        return self.head(torch.tanh(self.table(ids)))

    table, head = nn.Embedding(128, 32), nn.Linear(32, 128, bias=False)
    head.weight = table.weight
    return Model(Net(forward, table=table, head=head), seeded(lambda: (torch.arange(16, device=DEVICE),)), train=True)


@program
def aliases() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        y = x + 1
        return x.view(-1), y, y[1:], y.t(), x

    return Model(Net(forward), seeded(lambda: (randn(8, 16),)))


@program
def returns_parameter() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        return self.scale, x * self.scale, self.scale.view(4, 8)

    return Model(Net(forward, scale=nn.Parameter(torch.ones(32) * 3)), seeded(lambda: (randn(8, 32),)))


@program
def changes_input() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        x.mul_(2).add_(1)
        return x.sin().sum(-1)

    return Model(Net(forward), seeded(lambda: (randn(16, 64),)))


@program
def complex_outputs() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        spectrum = torch.fft.rfft(x)
        return spectrum * 2, torch.polar(x.abs(), x), spectrum.abs()

    return Model(Net(forward), seeded(lambda: (randn(8, 32),)))


@program
def recurrent() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        h = x.new_zeros(x.shape[0], 32)
        for step in range(4):
            h = self.cell(x[:, step], h)
        return h

    return Model(Net(forward, cell=nn.GRUCell(16, 32)).requires_grad_(False), seeded(lambda: (randn(4, 4, 16),)))


@program
def scatter() -> Model:
    def forward(self: Any, x: torch.Tensor, at: torch.Tensor) -> Any:
        out = x.new_zeros(10, 32).scatter_reduce(0, at[:, None].expand_as(x), x, "amax")
        return out, x.gather(0, at[:, None].expand_as(x) % 8), x[at % 8]

    at = [0, 1, 2, 3, 4, 5, 6, 7]
    return Model(Net(forward), seeded(lambda: (randn(8, 32), torch.tensor(at, device=DEVICE))))


@program
def sort_topk() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        return x.topk(3), x.sort(-1).values.cumsum(-1), x.argmax(-1)

    return Model(Net(forward), seeded(lambda: (randn(8, 40),)))


@program
def draws_numbers() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        return x + torch.rand_like(x), torch.randn(4, device=x.device), torch.randint(0, 9, (5,), device=x.device)

    return Model(Net(forward), seeded(lambda: (randn(8, 16),)))


@program
def large_reduction() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        return functional.log_softmax(x, -1).mean(), x.var(0), x.amax()

    return Model(Net(forward), seeded(lambda: (randn(16, 20000),)))


@program
def nested_results() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        return {"a": [x.sin(), (x.cos(), None)], "b": {"c": x.shape[0], "d": (x > 0)}}

    return Model(Net(forward), seeded(lambda: (randn(8, 16),)))


@program
def returns_nothing_new() -> Model:
    def forward(self: Any, x: torch.Tensor) -> Any:
        self.seen.copy_(x.amax(0))
        return x

    return Model(Net(forward, seen=torch.zeros(16)), seeded(lambda: (randn(8, 16),)))


@program
def on_two_devices() -> Model:
    def forward(self: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        return x @ x.t() + y.to(x.device), y * 2

    return Model(Net(forward), seeded(lambda: (randn(16, 16), torch.randn(16, 16))))


@program
def sgd_loop() -> Loop:
    torch.manual_seed(0)
    model = mlp_of(32, 64, 8).to(DEVICE).train()
    step = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)

    def run() -> None:
        for number in range(CALLS):
            torch.manual_seed(number)
            optimizer.zero_grad(set_to_none=True)
            loss = step(randn(16, 32)).square().mean()
            loss.backward()
            optimizer.step()
            write("step", [loss, *model.parameters(), [each.grad for each in model.parameters()]])

    return Loop(run)


@program
def adam_compiled() -> Loop:
    torch.manual_seed(0)
    model = mlp_of(16, 32, 4).to(DEVICE).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, foreach=True, capturable=DEVICE == "cuda")

    @compiled
    def update() -> None:
        optimizer.step()

    def run() -> None:
        for number in range(CALLS):
            torch.manual_seed(number)
            model(randn(8, 16)).square().mean().backward()
            update()
            optimizer.zero_grad(set_to_none=False)
            write("step", [*model.parameters()])

    return Loop(run)


@program
def whole_step() -> Loop:
    torch.manual_seed(0)
    model = mlp_of(16, 32, 4).to(DEVICE).train()
    loss_of = compiled(lambda x, y: functional.mse_loss(model(x), y))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)

    def run() -> None:
        for number in range(CALLS):
            torch.manual_seed(number)
            loss = loss_of(randn(8, 16), randn(8, 4))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            write("step", [loss, *model.parameters()])

    return Loop(run)


@program
def two_models() -> Loop:
    torch.manual_seed(0)
    first, second = (mlp_of(32, 64, 32).to(DEVICE).requires_grad_(False) for _ in range(2))
    one, other = compiled(first), compiled(second)

    def run() -> None:
        for number in range(CALLS):
            torch.manual_seed(number)
            x = randn(8, 32)
            y = one(x)
            z = other(y)
            write("both", [y + 0, z])
            if number % 2:
                write("again", other(kept(z)))

    return Loop(run)


@program
def results_held() -> Loop:
    torch.manual_seed(0)
    model = compiled(mlp_of(32, 32, 32).to(DEVICE).requires_grad_(False))

    def run() -> None:
        held = []
        for number in range(CALLS):
            torch.manual_seed(number)
            new_step()
            held.append(model(randn(4, 32)).clone())
        write("held", held)

    return Loop(run)


@program
def results_of_one_step() -> Loop:
    """Results of several calls in one step stay valid until the step ends: each graph is recorded after the others."""
    torch.manual_seed(0)
    model = compiled(mlp_of(32, 32, 32).to(DEVICE).requires_grad_(False))

    def run() -> None:
        for number in range(4):
            torch.manual_seed(number)
            new_step()
            x = randn(4, 32)
            results = [model(x), model(x + 1), model(x + 2)]
            write("of one step", results)

    return Loop(run)


@program
def pending_backwards() -> Loop:
    torch.manual_seed(0)
    net = mlp_of(32, 32, 8).to(DEVICE).train()
    model = compiled(net)

    def run() -> None:
        for number in range(CALLS):
            torch.manual_seed(number)
            out = model(randn(4, 32))
            write("without a backward", out)
        net.zero_grad()
        (model(randn(4, 32)).sum() + kept(model(randn(4, 32))).sum()).backward()
        write("gradients", [each.grad for each in net.parameters()])

    return Loop(run)


@program
def dynamic_sizes() -> Loop:
    torch.manual_seed(0)
    model = compiled(mlp_of(32, 48, 8).to(DEVICE).requires_grad_(False))

    def run() -> None:
        for size in (8, 9, 10, 16, 8, 9, 3, 16):
            torch.manual_seed(size)
            model(randn(size, 32))

    return Loop(run)


@program
def marked_dynamic() -> Loop:
    torch.manual_seed(0)
    model = compiled(lambda x, y: (x @ y.t()).softmax(-1).sum(0), dynamic=True)

    def run() -> None:
        for size in (8, 24, 8, 40, 24):
            torch.manual_seed(size)
            model(randn(size, 16), randn(size + 1, 16))

    return Loop(run)


@program
def decoding() -> Loop:
    torch.manual_seed(0)
    table, head = nn.Embedding(64, 32).to(DEVICE), nn.Linear(32, 64).to(DEVICE)
    cache = torch.zeros(32, 32, device=DEVICE)

    def step(token: torch.Tensor, at: torch.Tensor) -> Any:
        cache.index_copy_(0, at, table(token))
        seen = torch.arange(32, device=DEVICE) <= at
        return head((cache * seen[:, None]).sum(0) / (at + 1)).argmax(-1, keepdim=True)

    decode = compiled(step)

    def run() -> None:
        cache.zero_()
        token, tokens = torch.tensor([1], device=DEVICE), []
        with torch.no_grad():
            for position in range(8):
                token = decode(token, torch.tensor([position], device=DEVICE)).clone()
                tokens.append(token)
        write("tokens", [torch.cat(tokens), cache])

    return Loop(run)


@program
def training_and_inference() -> Loop:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4)).to(DEVICE)
    model = compiled(net)

    def run() -> None:
        for number in range(4):
            torch.manual_seed(number)
            net.train()
            model(randn(16, 32)).square().mean().backward()
            net.eval()
            with torch.no_grad():
                model(randn(16, 32))
            with torch.inference_mode():
                model(randn(16, 32))
            write("state", [*net.parameters(), *net.buffers(), [each.grad for each in net.parameters()]])
            net.zero_grad()

    return Loop(run)


@program
def accumulated_gradients() -> Loop:
    torch.manual_seed(0)
    net = mlp_of(32, 32, 4).to(DEVICE).train()
    model = compiled(net)
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)  # CUDA graphs need gradients outside of their pool

    def run() -> None:
        for number in range(6):
            torch.manual_seed(number)
            model(randn(8, 32)).sum().backward()
            if number % 3 == 2:
                write("gradients", [each.grad for each in net.parameters()])
                net.zero_grad(set_to_none=False)

    return Loop(run)


@program
def checkpointed() -> Loop:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 32)).to(DEVICE).train()
    from torch.utils.checkpoint import checkpoint

    model = compiled(lambda x: checkpoint(net, x, use_reentrant=False).sum())

    def run() -> None:
        for number in range(4):
            torch.manual_seed(number)
            net.zero_grad()
            model(randn(8, 32)).backward()
            write("gradients", [each.grad for each in net.parameters()])

    return Loop(run)


@program
def eager_draws_between() -> Loop:
    """Eager code draws random numbers between compiled calls, and nothing seeds them again."""
    torch.manual_seed(0)
    model = compiled(nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5)).to(DEVICE).train())

    def run() -> None:
        for _ in range(CALLS):
            x = randn(8, 16)
            with torch.no_grad():
                y = kept(model(x))
            write("drawn", [x, torch.rand(3), randn(3), y])

    return Loop(run)


@program
def gan() -> Loop:
    torch.manual_seed(0)
    maker, judge = mlp_of(8, 32, 16).to(DEVICE), mlp_of(16, 32, 1).to(DEVICE)
    make, judged = compiled(maker), compiled(judge)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.05) for each in (maker, judge)]

    def run() -> None:
        for number in range(4):
            torch.manual_seed(number)
            fake = make(randn(8, 8))
            (judged(fake.detach().clone()).mean() - judged(randn(8, 16)).mean()).backward()
            optimizers[1].step()
            maker.zero_grad()
            judge.zero_grad()
            new_step()
            (-judged(make(randn(8, 8))).mean()).backward()
            optimizers[0].step()
            maker.zero_grad()
            judge.zero_grad()
            write("both", [*maker.parameters(), *judge.parameters()])

    return Loop(run)


@program
def views_and_dtypes() -> Loop:
    model = compiled(lambda x: (x * 2 + 1).sum(-1).to(torch.float32))

    def run() -> None:
        for dtype in (torch.float32, torch.float64, torch.float16, torch.int64):
            torch.manual_seed(3)
            x = (torch.randn(16, 32, device=DEVICE) * 8).to(dtype)
            model(x)
            model(x.t())
            model(x[::2, 1:])

    return Loop(run)


@program
def peak_memory() -> Loop:
    """Reads the allocator's statistics, which a program may report."""
    torch.manual_seed(0)
    model = compiled(mlp_of(256, 1024, 256).to(DEVICE).requires_grad_(False))

    def run() -> None:
        torch.manual_seed(0)
        if DEVICE == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for _ in range(CALLS):
            model(randn(512, 256))
        if DEVICE == "cuda" and not IS_GRAPHED:
            torch.cuda.synchronize()
            write("statistics: current", torch.cuda.memory_allocated())
            write("statistics: peak", torch.cuda.max_memory_allocated())

    return Loop(run)


@program
def user_kernel() -> Model | Loop:
    if DEVICE != "cuda":
        return sgd_loop()
    total = torch.zeros(1000, device=DEVICE)

    @compiled
    def add(x: torch.Tensor) -> Any:
        accumulate[(triton.cdiv(1000, 256),)](total, x, 1000, block=256)
        return total.sum() + x.sum()

    def run() -> None:
        for number in range(CALLS):
            torch.manual_seed(number)
            add(randn(1000))
            write("total", total)

    return Loop(run)


def model_of(name: str) -> Model:
    """Return what a model file defines."""
    torch.manual_seed(0)
    made = PROGRAMS[name]()
    assert isinstance(made, Model)
    made.model.to(DEVICE)
    if made.train:
        watch_gradients(made.model)
    return made


def runner(name: str) -> Callable[[], None]:
    """Return what runs a program once."""
    torch.manual_seed(0)
    made = PROGRAMS[name]()
    if isinstance(made, Loop):
        return made.run
    original = made.model.to(DEVICE)
    if made.train:
        original.train()
        watch_gradients(original)
    model = compiled(original)

    def run() -> None:
        for _ in range(CALLS):
            for parameter in original.parameters():
                parameter.grad = None
            out = model(*made.inputs())
            if made.train:
                out.sum().backward()

    return run


def kind_of(name: str) -> tuple[bool, bool]:
    """Return whether a program is a model, and whether it is trained."""
    made = PROGRAMS[name]()
    return isinstance(made, Model), isinstance(made, Model) and made.train


def main(name: str, _compile: Any = None) -> None:
    """Run a program twice; with SAME_RESULTS_TRACE, ctrace watches the first time.

    A program that ctrace is to recognize as one names torch.compile.
    """
    run = runner(name)
    if os.environ.get("SAME_RESULTS_TRACE"):
        import ctrace

        with ctrace.trace(build=True):
            run()
    else:
        run()
    write("between", torch.rand(2))
    run()


install()
random.seed(0)  # else each process begins with other numbers
if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main(sys.argv[1])
