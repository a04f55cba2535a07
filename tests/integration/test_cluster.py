"""Ranks of a job that does not exist, end to end: collectives, where ranks part, and what stops at a peer's value."""

from pathlib import Path

import pytest

from tests.integration.conftest import Command
from tests.support.places import ROOT

pytestmark = pytest.mark.integration

TP = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("nccl")
mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 2048), nn.Linear(2048, 16)
    def forward(self, x):
        return self.down(self.up(x))
model = torch.compile(parallelize_module(Mlp(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()}))
with torch.no_grad():
    y = model(torch.rand(4, 16))
    dist.all_reduce(y)
print(dist.get_backend(), dist.get_rank(), dist.get_world_size())
"""
PARTS = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

@torch.compile
def f(x):
    x = x + 1
    if rank == 1:
        x = x.sin()
    return x * 2

f(torch.rand(4))
"""
ASKS = """\
import torch
import torch.distributed as dist

torch.compile(lambda x: x + 1)(torch.rand(2))
dist.init_process_group("gloo")
found = [None]
dist.broadcast_object_list(found, src=0)
print("got", found)
"""


def test_collectives_in_graphs_and_outside_without_a_peer(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "tp.py").write_text(TP)
    report = ctrace("collectives", "tp.py", "--world", "1024", "--rank", "7", "--json").report
    assert (report["rank"], report["world"]) == (7, 1024)
    in_graph, outside = report["collectives"][-2:]
    assert (in_graph["op"], in_graph["group"], in_graph["group_size"]) == ("all_reduce", "tp", 1024)
    assert (in_graph["bytes"], in_graph["dtype"], in_graph["line"]) == (4 * 16 * 4, "float32", 14)
    assert (in_graph["compiled"], in_graph["origin"]) == (True, "dtensor")
    assert (outside["op"], outside["line"], outside["compiled"], outside["origin"]) == ("all_reduce", 18, False, "user")
    assert outside["group"] == "tp"  # a mesh of one dimension takes the group of all ranks


@pytest.mark.long
def test_parts_into_which_ddp_cuts_a_graph_have_the_code_of_their_own(ctrace: Command, tmp_path: Path) -> None:
    program = ROOT / "benchmarks" / "cluster_programs" / "ddp_split.py"
    (tmp_path / "split.py").write_text(program.read_text())
    report = ctrace("explain", "split.py", "--world", "2", "--json").report
    assert report["problems"] == []
    assert report["environment"]["backend"] == "inductor"
    kernels = ctrace("kernels", "--json").report
    calls = {
        (part["stage"], each["name"]): each["calls"]
        for part in kernels["parts"]
        for each in part["kernels"]
        if each["language"] == "external"
    }
    assert calls == {("forward", "extern_kernels.addmm"): 5, ("backward", "extern_kernels.mm"): 9}
    (log,) = (tmp_path / ".ctrace").glob("*/trace.log")
    guards = [line for line in log.read_text().splitlines() if "check_tensor(" in line]
    assert guards
    # A real rank has no dispatch mode, whose key guards would name.
    assert not any("PythonTLSSnapshot" in line for line in guards)


IN_OPERATOR = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")

@torch.library.custom_op("mine::summed", mutates_args=())
def summed(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    dist.all_reduce(x)
    return x

summed.register_fake(torch.empty_like)
torch.compile(lambda x: summed(x * 2) + 1)(torch.rand(4))
summed(torch.rand(8))
"""


def test_collectives_in_a_custom_operator_are_seen_in_a_graph_and_outside(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "inside.py").write_text(IN_OPERATOR)
    found = ctrace("collectives", "inside.py", "--world", "4", "--json").report["collectives"]
    assert [(each["op"], each["bytes"], each["line"]) for each in found] == [
        ("all_reduce", 16, 9),
        ("all_reduce", 32, 9),
    ]


HOOKED = """\
import torch


class Layer(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = torch.nn.Linear(4, size)

    def forward(self, x):
        return self.inner(x)


layers = [Layer(4), Layer(8)]
for layer in layers:
    layer.inner.register_forward_hook(lambda module, args, output: output + 1)
    layer.compile(backend="eager")
    layer(torch.rand(2, 4))
"""


def test_hooks_of_layers_are_compared_at_their_positions_and_not_by_their_numbers(
    ctrace: Command, tmp_path: Path
) -> None:
    # Tensor parallelism and FSDP hook each layer, and each hook has a number that torch does not guard.
    (tmp_path / "hooked.py").write_text(HOOKED)
    (found,) = ctrace("recompiles", "hooked.py", "--json").report["recompiles"]
    assert {each["subject"] for each in found["causes"]} == {"self.inner.bias.size(0)", "self.inner.weight.size(0)"}


STAGES = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
part = torch.compile(nn.Linear(8, 8) if rank == world - 1 else nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
example = torch.rand(4, 8, requires_grad=True)
shapes = dict(input_args=(example if rank else example.detach(),), output_args=(example,))
stage = PipelineStage(part, rank, world, torch.device("cpu"), **shapes)
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda found, wanted: (found - wanted).pow(2).mean())
inputs = (torch.rand(8, 8),) if rank == 0 else ()
schedule.step(*inputs, **(dict(target=torch.rand(8, 8)) if rank == world - 1 else {}))
"""


@pytest.mark.long
def test_stages_of_a_pipeline_with_their_shapes_need_no_peer(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "stages.py").write_text(STAGES)
    report = ctrace("ranks", "stages.py", "--world", "3", "--json").report
    assert report["captured"] == [0, 1, 2]
    assert report["agree"] is True  # stages compile different code, and wait for each other in no collective
    found = ctrace("collectives", "stages.py", "--world", "3", "--rank", "1", "--json").report["collectives"]
    activations = [each for each in found if each["bytes"] == 4 * 8 * 4]
    assert [each["op"] for each in activations].count("recv") == 4, "two activations, and two gradients"
    assert [each["op"] for each in activations].count("send") == 4


def test_a_stage_without_shapes_says_what_to_give(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "stages.py").write_text(STAGES.replace(", **shapes", ""))
    result = ctrace("run", "--world", "3", "--rank", "1", "stages.py")
    assert result.code == 2
    text = result.err.replace("\n", " ")
    assert "stages.py:14 runs a pipeline stage that gets its shapes from another rank" in text
    assert "PipelineStage(..., input_args=..., output_args=...)" in text


@pytest.mark.long
def test_a_schedule_of_collectives_is_recorded_wherever_the_code_is_generated(ctrace: Command, tmp_path: Path) -> None:
    # Forks generate the code of some graphs, as cores are free: the record of torch must not depend on that.
    (tmp_path / "tp.py").write_text(
        TP.partition("with torch.no_grad")[0]
        + "for size in (4, 5, 6):\n    torch._dynamo.reset()\n    model(torch.rand(size, 16)).sum().backward()\n"
    )
    result = ctrace("ranks", "tp.py", "--world", "2", "--json").report
    assert result["agree"] is True
    for rank in (0, 1):
        log = (tmp_path / ".ctrace" / "ranks" / f"rank_{rank}" / "trace.log").read_text()
        assert log.count('"inductor_collective_schedule"') == 3, "one for each forward"


def test_a_graph_with_dtensors_gets_the_kernels_of_this_rank_on_a_gpu(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "tp.py").write_text(TP)
    report = ctrace("kernels", "tp.py", "--world", "8", "--target", "h100", "--json").report
    names = [each["name"] for part in report["parts"] for each in part["kernels"]]
    assert any("mm" in name for name in names)
    assert any("all_reduce" in name for name in names)
    assert not any("no code of graph" in str(each) for each in report["problems"])


@pytest.mark.long
def test_a_rank_without_weights_communicates_the_same(ctrace: Command) -> None:
    """FSDP2 over tensor parallelism, trained: gathers and reductions of shards that have no storage, on any GPU."""
    sample = str(ROOT / "sample_models" / "fsdp_tp_llama.py")
    options = ("--world", "8", "--train", "--target", "h100")
    ran = [ctrace("explain", sample, *options, *fake, "--json").report for fake in ((), ("--fake",))]
    assert len(ctrace("collectives", "--json").report["collectives"]) == 34
    assert [each["fake"] for each in ran] == [False, True]
    real, fake = ran
    assert (real["rank"], real["world"]) == (fake["rank"], fake["world"]) == (0, 8)
    assert fake["parameter_bytes"] == real["parameter_bytes"]
    assert not any("no code of graph" in str(each) for report in ran for each in report["problems"])
    for key in ("graphs", "breaks", "recompiles", "functions", "kernels"):
        assert fake[key] == real[key], key


def test_a_redistribution_in_eager_is_seen_with_its_placements(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "gathers.py").write_text(
        TP.replace("    dist.all_reduce(y)\n", "    y = model.up.weight.full_tensor()\n")
    )
    *_, found = ctrace("collectives", "gathers.py", "--world", "8", "--json").report["collectives"]
    assert (found["op"], found["origin"], found["compiled"], found["line"]) == (
        "all_gather_into_tensor",
        "dtensor",
        False,
        18,
    )
    assert found["change"] == "(Shard(dim=0)) -> (Replicate())"
    assert found["bytes"] == 2048 * 16 * 4


def test_ranks_part_at_a_branch_before_the_job_runs(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(PARTS)
    result = ctrace("ranks", "parts.py", "--world", "4", "--ranks", "0,1", "--json")
    assert result.report["captured"] == [0, 1]
    assert result.report["agree"] is False
    found = result.report["first_divergence"]
    assert (Path(found["file"]).name, found["line"], found["kind"]) == ("parts.py", 10, "graph")


@pytest.mark.parametrize("name", ["parts_lone", "parts_order", "healthy_roles"])
def test_ranks_that_send_differently_part_at_the_line_before_the_job_runs(
    name: str, ctrace: Command, tmp_path: Path
) -> None:
    program = (ROOT / "benchmarks" / "cluster_programs" / f"{name}.py").read_text()
    (tmp_path / "planted.py").write_text(program)
    planted = [number for number, line in enumerate(program.splitlines(), 1) if line.endswith("# parts here")]
    report = ctrace("ranks", "planted.py", "--world", "2", "--json").report
    found = report["first_divergence"]
    assert report["agree"] is (not planted)
    assert [found["line"]] == planted if planted else found is None


def test_a_peers_value_stops_the_run_with_what_to_give(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    result = ctrace("run", "--world", "8", "--rank", "3", "asks.py")
    assert result.code == 2
    assert "asks.py:7 needs objects from rank 0" in result.err
    assert '--assume "asks.py:7=VALUE"' in result.err
    given = ctrace("run", "--world", "8", "--rank", "3", "--assume", "asks.py:7=5", "asks.py")
    assert given.code == 0
    assert "got [5]" in given.out


GPU_MODEL = """\
import os
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))

def model():
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("tp",))
    return parallelize_module(torch.nn.Linear(16, 64, device=device), mesh, ColwiseParallel())

def inputs():
    return (torch.rand(4, 16, device=device),)
"""


def test_a_model_file_for_gpus_is_a_rank_with_a_target(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "gpu.py").write_text(GPU_MODEL)
    report = ctrace("explain", "gpu.py", "--world", "8", "--rank", "3", "--target", "h100", "--json").report
    assert (report["verdict"], report["rank"], report["world"]) == ("compiled", 3, 8)


def test_a_group_that_only_nccl_splits_says_so(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "split.py").write_text(
        "import torch\nimport torch.distributed as dist\n"
        'dist.init_process_group("nccl", device_id=torch.device("cuda", 0))\n'
        "dist.split_group(split_ranks=[[0, 1], [2, 3]])\n"
    )
    result = ctrace("run", "--world", "4", "split.py")
    assert result.code == 2
    assert "split.py:4 needs NCCL" in result.err.replace("\n", " ")


NCCL = """\
from datetime import timedelta
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
x, y = torch.compile(lambda x: x + 1)(torch.rand(8)), torch.empty(8)
requests = [dist.P2POp(dist.isend, x, (rank + 1) % world), dist.P2POp(dist.irecv, y, (rank - 1) % world)]
for request in dist.batch_isend_irecv(requests):
    request.wait()
dist.all_to_all_single(y, x, async_op=True).wait(timedelta(seconds=3))
with _coalescing_manager(device=torch.device("cpu")):
    dist.all_reduce(x)
    dist.all_reduce(y)
dist.all_reduce(x, group=dist.new_group(list(range(world)), backend="nccl"))
"""


def test_what_nccl_does_with_tensors_of_the_cpu_needs_no_nccl(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NCCL)
    found = ctrace("collectives", "train.py", "--world", "4", "--json").report["collectives"]
    assert [(each["op"], each["line"]) for each in found] == [
        ("send", 10),
        ("recv", 10),
        ("all_to_all_single", 12),
        ("all_reduce_coalesced", 13),
        ("all_reduce", 16),
    ]


JOINED = """\
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.compile(torch.nn.Linear(8, 8)))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
with Join([model, optimizer]):
    for _ in range(2 + rank):
        model(torch.rand(2, 8)).sum().backward()
        optimizer.step()
"""


@pytest.mark.long
def test_ranks_with_uneven_inputs_agree_under_join(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "joined.py").write_text(JOINED)
    report = ctrace("ranks", "joined.py", "--world", "2", "--json").report
    assert (report["agree"], report["first_divergence"]) == (True, None)
    assert any("after its inputs end at joined.py:11 (Join) depends on its peers" in each for each in report["notes"])
    (tmp_path / "saved.py").write_text(f"{JOINED}optimizer.consolidate_state_dict(to=0)\n")
    result = ctrace("run", "--world", "2", "--rank", "0", "saved.py")
    assert result.code == 2
    assert "saved.py:15 needs an object that another rank sends" in result.err.replace("\n", " ")


GRADIENTS = """\
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

dist.init_process_group("gloo")
x = torch.compile(lambda x: x + 1)(torch.rand(4, requires_grad=True))
funcol.all_to_all_single_autograd(x, [2, 2], [2, 2], dist.group.WORLD).sum().backward()
"""


def test_the_gradient_of_the_programs_own_collective_is_not_ddps(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(GRADIENTS)
    found = ctrace("collectives", "own.py", "--world", "2", "--json").report["collectives"]
    assert [(each["op"], each["part"], each["origin"]) for each in found] == [
        ("all_to_all_single", "forward", "user"),
        ("all_to_all_single", "backward", "user"),
    ]


MESH = """\
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
part = DeviceMesh("cpu", [0, 1])
torch.compile(lambda x: x + 1)(torch.rand(2))
"""


def test_a_mesh_that_leaves_ranks_out_is_refused_unless_the_job_names_its_mesh(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "meshes.py").write_text(MESH)
    result = ctrace("run", "--world", "7", "meshes.py")
    assert result.code == 2
    assert "meshes.py:6 makes a mesh of 3 x 2 = 6 ranks, and --world is 7" in result.err.replace("\n", " ")
    assert len(result.err.strip().splitlines()) == 2
    assert ctrace("run", "--world", "7", "--mesh", "world=7", "meshes.py").code == 0
    shown = ctrace("explain", "meshes.py", "--world", "8", "--rank", "3")
    assert "Rank 3 of 8; 1 other rank has the same position in the mesh" in shown.out


def test_a_program_that_fails_at_once_is_no_agreement_and_keeps_the_earlier_job(
    ctrace: Command, tmp_path: Path
) -> None:
    (tmp_path / "parts.py").write_text(PARTS)
    assert ctrace("ranks", "parts.py", "--world", "2", "--json").report["agree"] is False
    before = sorted((tmp_path / ".ctrace" / "ranks").rglob("*"))
    (tmp_path / "fails.py").write_text(PARTS.replace("@torch.compile", "raise OSError(7)\n\n@torch.compile"))
    result = ctrace("ranks", "fails.py", "--world", "2")
    assert result.code == 2
    assert "rank 0 fails" in result.err
    assert sorted((tmp_path / ".ctrace" / "ranks").rglob("*")) == before


def test_ranks_that_fail_after_a_compilation_leave_it_open_whether_they_agree(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(MESH + "raise OSError(7)\n")
    report = ctrace("ranks", "ends.py", "--world", "2", "--json").report
    assert report["agree"] is None
    assert "its program failed" in report["cut"]["0"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("explain", "asks.py", "--world", "8", "--mesh", "dp=2,tp=2"), "2 x 2 is 4, and --world is 8"),
        (("explain", "asks.py", "--world", "8", "--rank", "8"), "has ranks 0 to 7"),
        (("explain", "asks.py", "--mesh", "dp=8"), "needs a world"),
        (("explain", "asks.py", "--world", "8", "--build"), "--world and --build exclude each other"),
        (("ranks", "asks.py", "--world-size", "8"), "--world-size 8 is for a folder of logs"),
        (("ranks", ".", "--world", "8"), "has logs of ranks"),
        (("ranks", "asks.py"), "needs a folder of logs"),
    ],
)
def test_a_wrong_command_line_says_what_to_do(
    ctrace: Command, tmp_path: Path, words: tuple[str, ...], what: str
) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    (tmp_path / "tp.py").write_text(TP)
    result = ctrace(*words)
    assert result.code == 2
    assert what in result.err.replace("\n", " ")
    assert len(result.err.strip().splitlines()) <= 4
