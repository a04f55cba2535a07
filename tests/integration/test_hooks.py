"""Torch's C++ side sees the target GPU only while ctrace presents it, and no compiler is needed."""

import os
import subprocess
import sys

from tests.support.places import ROOT

_GRAD = """
import os, torch
from torch._subclasses import FakeTensorMode
from ctrace.inspector.features.gpus.child.gpu_hooks import Hooks
before = torch._C._accelerator_getAccelerator(), torch.cuda.is_available()
hooks = Hooks((9, 0))
print("refused:", hooks.refused())
for _ in range(2):
    with hooks.presented(), FakeTensorMode(), torch.autograd.set_multithreading_enabled(False):
        x = torch.empty_strided((4, 4), (4, 1), device="cuda:0", requires_grad=True)
        print(torch.autograd.grad((x @ x + x).exp().sum(), [x])[0].device)
assert before == (torch._C._accelerator_getAccelerator(), torch.cuda.is_available())
"""
_FORK = """
pid = os.fork()
if pid == 0:
    torch.ones(2, requires_grad=True).sum().backward()
    os._exit(0)
print("fork:", os.waitpid(pid, 0)[1])
"""


_REFUSED = """
import torch
from unittest.mock import patch
from ctrace.inspector.features.gpus.child import gpu_hooks
from ctrace.inspector.features.gpus.child.gpu_hooks import Hooks
before = torch._C._accelerator_getAccelerator(), torch.cuda.is_available()
for change in (
    patch.object(gpu_hooks, "_HOOKS", "_ZN2at5other"),
    patch.object(gpu_hooks, "_GUARDS", "_ZN3c105other"),
    patch.object(gpu_hooks, "HOOKS", gpu_hooks.HOOKS[:1]),
    patch.object(gpu_hooks, "HOOKS", ("gone.h",)),
    patch.dict(gpu_hooks._CODE, clear=True),
):
    with change:
        print(Hooks((9, 0)).refused())
assert before == (torch._C._accelerator_getAccelerator(), torch.cuda.is_available())
print(repr(Hooks((9, 0)).refused()))
"""


def _run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": "/nowhere", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_autograd_works_also_in_a_fork() -> None:
    assert _run(_GRAD + _FORK) == "refused: \ncuda:0\ncuda:0\nfork: 0\n"


def test_an_unsupported_torch_is_refused_and_not_patched() -> None:
    *refused, known = _run(_REFUSED).splitlines()
    expected = [
        "torch has no _ZN2at5other",
        "torch has no _ZN3c105other",
        "torch's headers do not describe its library",
        "torch's headers cannot be read",
        "processors of type",
    ]
    assert all(why.startswith(start) for why, start in zip(refused, expected, strict=True)), refused
    assert known == "''"
