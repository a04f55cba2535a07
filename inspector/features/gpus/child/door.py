"""How the core reaches the virtual GPU: the hooks with which a program takes its GPU path on the CPU, the device that
code is emitted for, and what `ctrace doctor` probes.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ctrace.inspector.capture.core.forks import Cores
from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.cluster_facts import RANKS_PER_NODE
from ctrace.inspector.facts.target_gpu import UNNAMED_GPU
from ctrace.inspector.features.gpus.child.absent_gpu import absent_gpu, where_absent
from ctrace.inspector.features.gpus.child.compile_kernels import Metal
from ctrace.inspector.features.gpus.child.eager_on_cpu import Pretence, StandIns, traced_as_there
from ctrace.inspector.features.gpus.child.gpu_hooks import Hooks
from ctrace.inspector.features.gpus.child.gpu_tuning import can_be_left_open, left_open
from ctrace.inspector.features.gpus.child.move_graph import graph_name, meshes_of_gpus, move, trainable, without_code
from ctrace.inspector.features.gpus.child.torch_cuda_answers import facts
from ctrace.inspector.features.gpus.child.traced_questions import questions
from ctrace.inspector.features.gpus.child.triton_interpreter import interpreter
from ctrace.inspector.features.gpus.child.virtual_gpu import VirtualGpu
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu, gpu_named


def hooks(gpu: TargetGpu | None, world: int | None, *, is_program: bool) -> Iterator[Hook]:
    """Return the hooks with which a program finds the GPU; None: it is a rank of a job, whose GPU nobody named."""
    if gpu is None and os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return  # the user hides all GPUs, as for a job on the CPU
    count = 1
    if world is not None:
        count = min(RANKS_PER_NODE, world)
    answers = facts(gpu or gpu_named(UNNAMED_GPU), count, is_present=is_program)
    # The answers first, which `absent_gpu` needs as it is installed.
    for hook in (answers, absent_gpu(is_named=gpu is not None), questions, traced_as_there):
        yield hook if gpu is not None else where_absent(hook)
    if gpu is not None:
        yield interpreter


def pretence(recorder: Recorder, gpu: TargetGpu) -> Pretence:
    """Return the contexts in which a model is loaded and called as if the GPU were there."""
    return Pretence(recorder, gpu.name)


class VirtualDevice:
    """A GPU that code is emitted for; the protocol is `capture/inductor/emit.py`."""

    def __init__(self, gpu: TargetGpu, recorder: Recorder) -> None:
        self._recorder = recorder
        self._gpu = VirtualGpu(gpu, recorder)

    def compiler(self, cores: Cores) -> Metal:
        """Return the compiler of its kernels."""
        return Metal(self._recorder, self._gpu, cores)

    def candidates(self) -> Callable[[], AbstractContextManager[None]] | None:
        """Return a context in which choices are listed, not timed; None: this torch chooses in another way."""
        if can_be_left_open():
            return lambda: left_open(self._recorder)
        return None

    def patches(self, when: When) -> AbstractContextManager[None]:
        """Let flex attention be trained, which torch refuses on a CPU."""
        return trainable(self._recorder, when)

    @contextmanager
    def emitting(self, configured: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
        """Present the GPU to Inductor; failing to emit code in the block does not end the program."""
        with self._gpu.present(), meshes_of_gpus(), configured(), without_code(self._recorder, self._gpu.facts.name):
            yield

    def tracing(self, inputs: Any) -> AbstractContextManager[None]:
        """Disable gradients in the block, which traces a graph with these inputs, if no backward can be traced."""
        return self._gpu.tracing(inputs)

    def moved(self, model: Any, inputs: Any) -> list[Any]:
        """Move a graph module to the GPU, and return its inputs there."""
        return move(model, inputs)

    def running(self, graph: Any) -> Callable[..., Any]:
        """Return a function that runs a graph; ops that have no CPU kernel return zeros."""
        return StandIns(self._recorder, self._gpu.facts.name).in_graph(graph, graph_name())


def probe() -> dict[str, Any]:
    """Differentiate on fake GPU tensors, as `--target` does; if that aborts the process, it prints no answer."""
    import torch
    from torch._subclasses import FakeTensorMode

    hooks = Hooks((9, 0))
    refused = hooks.refused()
    if not refused:
        with hooks.presented(), FakeTensorMode(), torch.autograd.set_multithreading_enabled(False):
            tensor = torch.empty_strided((2, 2), (2, 1), device="cuda:0", requires_grad=True)
            torch.autograd.grad((tensor @ tensor).sum(), [tensor])
    return {
        "name": "code for a target GPU",
        "ok": not refused,
        "found": refused or "for the forward and the backward",
        "todo": "--target emits no code for the backward pass here; please report it with your torch version",
    }
