"""ctrace changes no result: programs that are built and timed under ctrace compute what they compute without it.

`benchmarks/same_results.py` is the study with every mode and option, which needs a GPU for most of it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.capture.capture_hooks import capturing
from ctrace.inspector.capture.core.patch import patched
from tests.integration.conftest import Command

torch = pytest.importorskip("torch")

PROGRAM = """\
import contextlib, hashlib, os, random
import torch

torch.manual_seed(0)
random.seed(0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = torch.nn.Linear(16, 16), torch.nn.Dropout(0.3)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        chosen = torch.multinomial(torch.ones(8), 6)
        return self.drop(self.layer(x))[chosen] * self.count

net = Net()
step = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
cache = torch.zeros(8, 16)

@torch.compile
def changed(x, at):
    cache.index_copy_(0, at, x)
    x.mul_(2)
    return cache.cumsum(0), x

def shown(*values):
    whole = hashlib.sha256()
    for value in values:
        whole.update(value.detach().contiguous().numpy().tobytes())
    print(whole.hexdigest()[:16], torch.rand(1).item(), random.random(), torch.is_grad_enabled())

def run():
    for _ in range(3):
        x = torch.randn(8, 16)
        out = step(x)
        out.square().mean().backward()
        optimizer.step()
        shown(out, net.count, *net.parameters(), *(each.grad for each in net.parameters()))
        optimizer.zero_grad()
        shown(*changed(x[:2], torch.tensor([1, 3])), x, cache)

if os.environ.get("TRACED"):
    import ctrace
    with ctrace.trace(build=True):
        run()
else:
    run()
run()
"""


def test_a_program_computes_the_same(ctrace: Command) -> None:
    """Under `ctrace run --build` and in `ctrace.trace(build=True)`, and after the block."""
    ctrace.write("program.py", PROGRAM)
    plain = ctrace.python("program.py")
    assert len(plain.stdout.splitlines()) == 12, plain.stderr
    watched = ctrace("run", "--build", "program.py")
    assert watched.out == plain.stdout
    assert "Time per launch" in ctrace("kernels").out
    assert ctrace.python("program.py", TRACED="1").stdout == plain.stdout


class Kernels:
    """The kernels that compiled code runs, for the program and a second time."""

    def __init__(self) -> None:
        self.of_program: list[str] = []
        self.again: list[str] = []
        self.shared: list[str] = []
        """Second runs that get memory of the program."""
        self._is_second = False
        self._owned: dict[int, Any] = {}
        """The program's tensors by address, kept alive so that no other memory gets their addresses."""

    def watch(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            memory = self._memory((args, kwargs))
            if not self._is_second:
                self.of_program.append(name)
                self._owned |= memory
            else:
                self.again.append(name)
                self.shared += [name for address in memory if address in self._owned]
            return function(*args, **kwargs)

        return watched

    def _memory(self, value: Any) -> dict[int, Any]:
        from torch.utils import _pytree

        tensors = [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.numel()]
        return {each.untyped_storage().data_ptr(): each for each in tensors}

    @contextmanager
    def watched(self) -> Iterator["Kernels"]:
        """Watch all kernels of modules that are compiled in the block, below ctrace's own hooks."""
        from torch._inductor.graph import GraphLowering

        from ctrace.inspector.capture.kernels import record_built_kernels

        original, second_run = GraphLowering.compile_to_module, vars(record_built_kernels)["second_run"]

        def compile_to_module(lowering: Any) -> Any:
            module = original(lowering)
            names = vars(module)
            for name in [each for each in names if each.startswith("cpp_fused")]:
                names[name] = self.watch(name, names[name])
            return module

        @contextmanager
        def marked(*args: Any) -> Iterator[Any]:
            self._owned |= self._memory(args)  # what the program is about to pass
            with second_run(*args) as run:
                self._is_second = True
                try:
                    yield run
                finally:
                    self._is_second = False

        with ExitStack() as patches:
            patches.enter_context(patched(GraphLowering, "compile_to_module", compile_to_module))
            patches.enter_context(patched(record_built_kernels, "second_run", marked))
            yield self


def test_timing_touches_no_memory_of_the_program(tmp_path: Path) -> None:
    """Kernels run for the program as often as without ctrace; all other runs get memory that it never sees."""

    def run() -> list[Any]:
        torch.manual_seed(0)
        torch._dynamo.reset()
        state = torch.zeros(64)

        @torch.compile
        def step(x: Any) -> Any:
            state.add_(x.sum(0))
            return torch.nn.functional.dropout(x.softmax(-1), 0.5), state * 2

        return [[each.clone() for each in step(torch.full((4, 64), float(number)))] for number in range(3)]

    def under(*, is_timed: bool) -> tuple[list[Any], Kernels]:
        with capturing(tmp_path / f"{is_timed}.log", build=True, time_kernels=is_timed), Kernels().watched() as kernels:
            return run(), kernels

    (expected, plain), (found, timed) = under(is_timed=False), under(is_timed=True)
    for one, other in zip(expected, found, strict=True):
        assert all(torch.equal(*each) for each in zip(one, other, strict=True))
    assert timed.of_program == plain.of_program
    assert (len(timed.again) >= 4, plain.again) == (True, [])
    assert timed.shared == []
