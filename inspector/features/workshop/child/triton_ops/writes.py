"""Ask torch what a launch of a kernel writes to: it reads Triton's intermediate code.

`identify_mutated_tensors` (2.11) or `identify_accessed_tensors` (2.13, _higher_order_ops/triton_kernel_wrap.py). If the
analysis fails, torch warns and assumes that the kernel writes every tensor; that is no answer here.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.kernels.compile_driver import Driver
from ctrace.inspector.knowledge.gpus.table import gpu_named
from ctrace.inspector.knowledge.versions.names import KERNEL_ANALYSIS

_WITHOUT_GPU = "h100"
"""The GPU whose intermediate code is read where there is none; what a kernel writes does not depend on it."""


def written_by(kernel: Any, named: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, str]:
    """Return the parameters that a launch writes to, or None and why torch cannot tell."""
    import torch
    from torch._higher_order_ops import triton_kernel_wrap

    analyze = getattr(triton_kernel_wrap, KERNEL_ANALYSIS.needed_of(triton_kernel_wrap))
    there = nullcontext() if torch.cuda.is_available() else Driver(gpu_named(_WITHOUT_GPU)).active()
    with there, _warnings() as warned:
        try:
            found = analyze(kernel, dict(named), {})
        except Exception as error:
            return None, kind_and_message(error)[:200]
    if warned:
        return None, warned[0]
    names = found if isinstance(found, list | tuple | set) else [each.name for each in found.read_writes.writes]
    return tuple(name for name in kernel.arg_names if name in set(names)), ""


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Keep torch's warnings about the analysis instead of printing them."""
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            found.append(kind_and_message(error)[:200] if error is not None else record.getMessage()[:200])

    log = logging.getLogger("torch._higher_order_ops.triton_kernel_wrap")
    kept, propagates = Kept(logging.WARNING), log.propagate
    log.addHandler(kept)
    log.propagate = False
    before, log.handlers = log.handlers, [kept]
    try:
        yield found
    finally:
        log.handlers = [each for each in before if each is not kept]
        log.propagate = propagates
