"""Programs that take a GPU without asking, on a machine that has none: as a rank of a job, and with `--target`."""

import re
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.features.cluster.collective_view import collectives_document
from ctrace.inspector.features.compare.rank_summary import Apart, summary_of
from ctrace.inspector.log.folders import LogFile
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store
from tests.integration.conftest import Command
from tests.support.places import ROOT

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, and the program would use it")

PROGRAMS = ROOT / "benchmarks" / "cluster_programs"
ON_CPU = re.compile(r"^(?P<indent> *).*# cpu: (?P<other>.*)$", re.MULTILINE)
"""As in benchmarks/cluster.py: what stands in a line of a program for GPUs where there is none."""
KINDS = (Apart.INPUT, Apart.COLLECTIVE, Apart.GRAPH, Apart.GUARD, Apart.RECOMPILE)


def captured(ctrace: Command, text: str, name: str) -> tuple[Any, Any, list[Any]]:
    """Run a program as rank 1 of 4, and return its graphs and guards, kernels, and collectives."""
    ctrace.write("train.py", text)
    result = ctrace("run", "--name", name, "--world", "4", "--rank", "1", "train.py")
    assert result.code == 0, result.err
    run = Store(ctrace.folder / ".ctrace").load(name)
    session = load(run)
    summary = summary_of(LogFile(run.log, 1, run.log.stat().st_size))
    assert summary.compilations
    return (
        [(each.id, [each.digests.get(kind) for kind in KINDS]) for each in summary.compilations],
        sorted((each.graph, str(each.stage), each.name, each.source) for each in session.kernels),
        [(each.op, each.bytes, each.line, each.origin) for each in collectives_document(session).collectives],
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["gpu_ddp", "gpu_titan", pytest.param("gpu_fsdp2", marks=pytest.mark.slow),
    pytest.param("gpu_moe", marks=pytest.mark.slow), pytest.param("gpu_pipeline", marks=pytest.mark.slow),
    pytest.param("gpu_tutorial", marks=pytest.mark.slow)])  # fmt: skip
def test_a_program_for_gpus_compiles_and_sends_what_it_would_on_cpus(ctrace: Command, name: str) -> None:
    text = (PROGRAMS / f"{name}.py").read_text()
    compiled, kernels, sent = captured(ctrace, text, "gpu")
    # Before the first random op on a DTensor, on GPUs alone, rank 0 sends the state of its generator.
    sent = [each for each in sent if each[:2] != ("broadcast", 16)]
    assert (compiled, kernels, sent) == captured(ctrace, ON_CPU.sub(r"\g<indent>\g<other>", text), "cpu")


@pytest.mark.parametrize("command", ["explain", "run"])
def test_without_a_target_it_says_how_to_do_without_a_gpu(ctrace: Command, command: str) -> None:
    made = "import torch\nmodel = torch.nn.Linear(4, 4).cuda()\ndef inputs():\n    return torch.ones(2, 4).cuda(),\n"
    ctrace.write("model.py", made)
    failed = ctrace(command, "model.py")
    assert failed.code == 3
    assert "There is no GPU here. With --target h100, the code runs on the CPU" in " ".join(
        (failed.out + failed.err).split()
    )
    if command == "explain":
        assert "COMPILED" in ctrace(command, "model.py", "--target", "h100").out


def test_a_trainer_with_autocast_and_a_scaler_runs_as_a_rank(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text((PROGRAMS / "gpu_amp.py").read_text())
    result = ctrace("run", "--world", "8", "train.py")
    assert result.code == 0, result.err
    shown = " ".join(result.err.split())
    assert "COMPILED train.py" in shown
    assert "The program takes a GPU, and there is none: its tensors are on the CPU" in shown
    assert "saves checkpoint.pt (torch.save): --world writes no such file" in shown
    assert "scale 65536" in result.out


def test_fsdp1_computes_on_the_cpu_in_place_of_its_gpu(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text((PROGRAMS / "gpu_fsdp1.py").read_text())
    found = ctrace("collectives", "train.py", "--world", "4", "--json").report["collectives"]
    assert {each["op"] for each in found} >= {"all_gather_into_tensor", "reduce_scatter_tensor"}


SAVES = """\
import os
from pathlib import Path
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
name = torch.cuda.get_device_name()
model = torch.compile(lambda x: x + 1)
state = {"x": model(torch.rand(4, device="cuda"))}
torch.save(state, "run.pt.part")
os.replace("run.pt.part", "run.pt")
torch.save(state, Path("run.pt"))
print(torch.load("run.pt", map_location="cuda:0")["x"].shape, name)
dcp.save(state, checkpoint_id="all")
dcp.load(state, checkpoint_id="all")
"""


def test_a_rank_writes_over_no_checkpoint(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "run.pt").write_text("of a real job")
    (tmp_path / "saves.py").write_text(SAVES)
    result = ctrace("run", "--world", "8", "saves.py")
    assert "torch.Size([4]) NVIDIA H100" in result.out
    assert (tmp_path / "run.pt").read_text() == "of a real job"
    assert not (tmp_path / "all").exists()
    shown = " ".join(result.err.split())
    assert "saves.py:12 saves run.pt.part (torch.save): --world writes no such file" in shown
    assert "What it asks about the GPU is answered as on h100." in shown
    problems = ctrace("explain", "--json").report["problems"]
    assert any("saves.py:16 writes a checkpoint of all ranks" in each["what"] for each in problems)
    assert any("saves.py:17 reads a checkpoint of all ranks" in each["what"] for each in problems)


def test_a_collective_that_nothing_waited_for_is_an_input_of_code_for_a_target(ctrace: Command) -> None:
    ctrace.write("train.py", (PROGRAMS / "gpu_titan.py").read_text())
    report = ctrace("kernels", "train.py", "--world", "4", "--target", "h100", "--json").report
    assert {part["graph"] for part in report["parts"] if part["kernels"]} == {"0/0", "0/1"}
    assert not report["not_emitted"]


REDISTRIBUTES = """\
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("tp",))
x = DTensor.from_local(torch.rand(2, 16, device="cuda"), mesh, [Shard(0)])
torch.nn.init.normal_(x)
torch.nn.init.normal_(x)
torch.compile(lambda x: x.redistribute(mesh, [Shard(1)]) + 1)(x)
"""


def test_dtensor_communicates_on_gpus_as_there(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REDISTRIBUTES)
    found = ctrace("collectives", "train.py", "--world", "8", "--json").report["collectives"]
    assert [(each["op"], each["line"], each["bytes"]) for each in found] == [
        ("broadcast", 9, 16),
        ("shard_dim_alltoall", 11, 128),
    ]


ALONE = """\
import torch
from torch import nn

device = torch.device("cuda:0")
generator = torch.Generator(device=device).manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 8)

    def forward(self, x):
        return torch.softmax(self.head(x), -1)


model = torch.compile(Net().cuda())
scaler = torch.amp.GradScaler()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
for _ in range(2):
    start.record()
    x = torch.randn(4, 8, device=device, generator=generator).pin_memory().to(0, non_blocking=True)
    with torch.autocast("cuda"):
        out = model(x)
        assert out.dtype is torch.float32
        half = torch.mm(x, x.t())
        assert half.dtype is torch.float16
        with torch.autocast("cuda", enabled=False):
            assert torch.mm(x, x.t()).dtype is torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.softmax(torch.mm(x, x.t()), -1).dtype is torch.bfloat16
    scaler.scale(out.log().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    end.record()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
    torch.cuda.nvtx.range_push("step")
    torch.cuda.nvtx.range_pop()
    if out.sum().item() > 100:
        break
torch.tril_indices(3, 3, device="cuda")
torch.empty(2, pin_memory=True)
torch.cuda.reset_peak_memory_stats()
print(torch.cuda.memory_allocated(), torch.cuda.device_count(), start.elapsed_time(end) > 0)
"""


def test_one_process_takes_the_gpu_that_the_command_line_names(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text(ALONE)
    result = ctrace("run", "--target", "h100", "alone.py")
    assert result.code == 0, result.err
    assert "0 1 True" in result.out
    report = ctrace("kernels", "--json").report
    kernels = [each for part in report["parts"] for each in part["kernels"]]
    assert any("softmax" in each["name"] for each in kernels)
    assert {each["language"] for each in kernels} <= {"triton", "external"}


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.CUDAGraph()",
        "torch.cuda.FloatTensor(2)",
        "torch.nn.SyncBatchNorm(4).cuda()(torch.rand(2, 4, 8, device=0))",
    ],
)
def test_what_has_no_counterpart_on_the_cpu_stops_at_its_line(ctrace: Command, tmp_path: Path, line: str) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nimport torch.distributed as dist\n\ntorch.cuda.set_device(0)\n"
        f'dist.init_process_group("nccl")\ntorch.compile(lambda x: x + 1)(torch.rand(2).cuda())\n{line}\n'
    )
    result = ctrace("run", "--world", "4", "train.py")
    assert result.code == 2
    what, todo = result.err.splitlines()  # no traceback, and no warning that this torch lacks NCCL
    assert "train.py:7 needs a GPU" in what
    assert "leave that line out under --world" in todo


def test_a_hidden_gpu_is_none(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text("import torch\nprint(torch.cuda.is_available(), torch.cuda.device_count())\n")
    assert "True 4" in ctrace("run", "--world", "4", "ask.py").out
    assert "True 8" in ctrace("run", "--world", "1024", "ask.py").out
    assert "False 0" in ctrace("run", "--world", "4", "ask.py", CUDA_VISIBLE_DEVICES="").out


CASTS = f"""\
import sys
sys.path.insert(0, {str(ROOT)!r})
import contextlib
import torch
import torch.cuda.amp.common as amp
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.features.gpus.child.cuda_autocast import cast_as_cuda, rules
from ctrace.inspector.features.gpus.child.virtual_gpu import VirtualGpu
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named


class Silent:
    def add(self, *_args, **_kwargs): ...
    def watching(self, what): return contextlib.nullcontext()


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {{}}))
        if "prim.device" not in str(func):
            kinds = [[each.dtype for each in tree_leaves(some) if isinstance(each, torch.Tensor)] for some in (args, result)]
            self.ops.append((str(func), kinds))
        return result


F = torch.nn.functional
CALLS = {{
    "mm": lambda a, h: a @ h.float(), "linear": F.linear, "layer_norm": lambda a, h: F.layer_norm(h, (8,)),
    "exp": lambda a, h: h.exp(), "pow": lambda a, h: h**2, "sum": lambda a, h: h.sum(), "sum_dim": lambda a, h: h.sum(0),
    "sum_dtype": lambda a, h: h.sum(dtype=torch.float16), "cumsum": lambda a, h: h.cumsum(0),
    "prod": lambda a, h: h.prod(0), "norm": lambda a, h: torch.norm(h), "norm_dim": lambda a, h: torch.norm(h, 2, [0]),
    "cat": lambda a, h: torch.cat([a, h]), "stack": lambda a, h: torch.stack([a, h]),
    "addcmul": lambda a, h: torch.addcmul(a, h, h), "index_put": lambda a, h: a.index_put((torch.zeros(1).long(),), h[0]),
    "mse": F.mse_loss, "cross_entropy": lambda a, h: F.cross_entropy(h, a.argmax(-1)), "mv": lambda a, h: a.mv(h[0]),
    "einsum": lambda a, h: torch.einsum("ij,kj->ik", a, h), "double": lambda a, h: a.double().exp(),
    "max_pool3d": lambda a, h: F.max_pool3d(h.view(1, 1, 2, 4, 8), 2), "pad": lambda a, h: F.pad(h[None], (1, 1), "reflect"),
    "quantile": lambda a, h: a.quantile(0.5), "group_norm": lambda a, h: F.group_norm(h, 2),
    "bce_logits": lambda a, h: F.binary_cross_entropy_with_logits(h, a), "interpolate": lambda a, h: F.interpolate(
        h.view(1, 1, 8, 8), scale_factor=2.0), "add": lambda a, h: a + h, "rms_norm": lambda a, h: F.rms_norm(h, (8,)),
    "binary_cross_entropy": lambda a, h: F.binary_cross_entropy(torch.sigmoid(a), torch.sigmoid(a)),
}}


def seen(device, around):
    found = {{}}
    with around:
        for name, call in CALLS.items():
            a = torch.ones(8, 8, device=device)
            h = torch.ones(8, 8, device=device, dtype=torch.float16)
            log = Seen()
            try:
                with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False), log:
                    call(a, h)
            except Exception as error:
                log.ops.append(type(error).__name__)
            found[name] = log.ops
    return found


@contextlib.contextmanager
def there():
    with VirtualGpu(gpu_named("h100"), Silent()).present(), FakeTensorMode():
        yield


@contextlib.contextmanager
def here():
    with cast_as_cuda(), FakeTensorMode():
        yield


with patched(amp, "amp_definitely_not_available", lambda: False):
    gpu, cpu = seen("cuda", there()), seen("cpu", here())
for name in CALLS:
    if gpu[name] != cpu[name]:
        print("differs:", name, gpu[name], cpu[name])
registered = {{name.removeprefix("aten::") for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")}}
print("not in the lists:", sorted(registered - set(rules())), sorted(set(rules()) - registered))
with torch.autocast("cpu", dtype=torch.bfloat16):
    print("afterwards:", torch.softmax(torch.ones(2, dtype=torch.bfloat16), -1).dtype)
"""


def test_autocast_casts_on_the_cpu_as_on_cuda(ctrace: Command) -> None:
    ctrace.write("casts.py", CASTS)
    done = ctrace.python("casts.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "not in the lists: ['cudnn_convolution', 'cudnn_convolution_transpose'] []",
        "afterwards: torch.bfloat16",
    ], done.stdout
