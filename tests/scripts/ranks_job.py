"""A job of several ranks; its argument says in what the second rank differs. For tests/support/record_ranks.py."""

import os
import signal
import sys

case, rank = sys.argv[1], int(os.environ["RANK"])
if case == "environment" and rank == 1:
    os.environ["TORCHINDUCTOR_SIZE_ASSERTS"] = "0"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed import _functional_collectives as collectives  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

dist.init_process_group("gloo")
torch.manual_seed(0)
is_other = rank == 1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 16)
        self.leave = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.enter(x))
        if case == "branch" and is_other:
            hidden = torch.sin(hidden)
        return self.leave(hidden)


def train(model: nn.Module) -> None:
    """Take a few steps; a rank with more rows recompiles."""
    sizes = {"shape": (6, 6, 6), "recompile": (4, 4, 6), "killed": (4, 6, 6)}.get(case, (4, 4, 4))
    for size in sizes if is_other or case == "killed" else (4, 4, 4):
        model(torch.rand(size, 8)).sum().backward()


compiled = []


def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
    """Compile as aot_eager does; a rank that is killed dies while it compiles its second graph."""
    compiled.append(graph)
    if case == "killed" and is_other and len(compiled) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)


def reduced(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if case == "order" and is_other:
        most = collectives.all_reduce(y, "max", dist.group.WORLD)
        total = collectives.all_reduce(x, "sum", dist.group.WORLD)
    else:
        total = collectives.all_reduce(x, "sum", dist.group.WORLD)
        most = collectives.all_reduce(y, "max", dist.group.WORLD)
    return total * 2 + most


if case in ("order", "environment", "collectives"):
    torch.compile(reduced)(torch.ones(4), torch.ones(4))
elif case == "fsdp":
    from torch.distributed.fsdp import fully_shard

    net = Net()
    for part in (net.enter, net.leave, net):
        fully_shard(part, mesh=init_device_mesh("cpu", (2,)))
    train(torch.compile(net, backend=backend))
elif case == "tensor_parallel":
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {"enter": ColwiseParallel(), "leave": RowwiseParallel()}
    train(torch.compile(parallelize_module(Net(), init_device_mesh("cpu", (2,)), plan), backend=backend))
elif case == "ddp":
    train(torch.compile(DistributedDataParallel(Net()), backend=backend))
else:
    train(DistributedDataParallel(torch.compile(Net(), backend=backend)))
dist.destroy_process_group()
