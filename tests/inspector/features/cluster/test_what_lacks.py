"""Which exceptions of a program only a missing GPU explains; torch raises each of them for real."""

from pathlib import Path

import pytest
import torch

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.cluster.child.lone_rank import refusing_what_lacks

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


def run(line: str, folder: Path) -> None:
    program = folder / "train.py"
    program.write_text(f"import torch\nimport torch.distributed as dist\n{line}\n")
    with refusing_what_lacks():
        exec(compile(program.read_text(), str(program), "exec"), {})


@pytest.mark.parametrize(
    ("line", "what", "todo"),
    [
        ("torch.cuda.set_device(1)", "needs a GPU", "leave that line out under --world"),
        ("torch.cuda.set_device(3 % torch.cuda.device_count())", "needs a GPU", "leave that line out under --world"),
        ("torch.nn.Linear(2, 2).cuda()", "needs a GPU", "leave that line out under --world"),
        ("torch.nn.Linear(2, 2).to(1)", "needs a GPU", "leave that line out under --world"),
        ('torch.rand(2, device=torch.device("cuda", 1))', "needs a GPU", "leave that line out under --world"),
        ("torch.accelerator.set_device_index(1)", "needs a GPU", "leave that line out under --world"),
        (
            'dist.init_process_group("nccl", device_id=torch.device("cuda", 1))',
            "needs a GPU",
            "leave that line out under --world",
        ),
        ("torch.cuda.nccl.version()", "needs a GPU", "leave that line out under --world"),
        ("dist.ProcessGroupNCCL.Options()", "needs NCCL", "if torch.distributed.is_nccl_available()"),
        ("from torch.distributed import ProcessGroupNCCL", "needs NCCL", "if torch.distributed.is_nccl_available()"),
        ("dist.HashStore()._set_default_timeout(1)", "for _set_default_timeout", '"_set_default_timeout")'),
    ],
)
def test_what_only_a_gpu_answers_names_the_line_and_what_to_do(tmp_path: Path, line: str, what: str, todo: str) -> None:
    with pytest.raises(TargetError) as found:
        run(line, tmp_path)
    assert f"{tmp_path / 'train.py'}:3 " in found.value.what
    assert what in found.value.what
    assert todo in found.value.todo


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("1 // 0", ZeroDivisionError),
        ("torch.rand(2) @ torch.rand(3)", RuntimeError),
        ("torch.nn.Linear(2, 2).cuda_()", AttributeError),
        ('raise ValueError("no NCCL")', ValueError),
        ("dist.all_reduce(torch.rand(2))", ValueError),
    ],
)
def test_any_other_exception_stays(tmp_path: Path, line: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        run(line, tmp_path)
