"""Every kernel that Inductor emits or calls, with the aten ops and the user's lines it came from.

Source: `set_kernel_post_grad_provenance_tracing` (2.13, _inductor/debug.py:1142), which every backend calls with a
kernel's name and the scheduler nodes in it. We see what torch's own provenance tracking sees, without switching it on:
that would change the user's configuration and copy the history of every node.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.origins import ops_of, origins_of
from ctrace.inspector.capture.patch import patched
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.sources import When

_HOOK = "set_kernel_post_grad_provenance_tracing"
_USERS = ("torch._inductor.debug", "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton")


@contextmanager
def kernels(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each kernel of each graph part, in the order of their calls."""
    ours: set[Any] = set()
    with ExitStack() as patches:

        def install(module: ModuleType) -> None:
            original = getattr(module, _HOOK, None)
            if original is None:
                recorder.problem(f"kernels could not be recorded: {module.__name__} has no {_HOOK}")
            if original is None or original in ours:  # imported from a module where we are already
                return

            def traced(node_schedule: Any, kernel_name: str, is_extern: bool = False) -> Any:
                with recorder.watching("a kernel"):
                    recorder.record("kernel", _describe(node_schedule, kernel_name, is_extern))
                return original(node_schedule, kernel_name, is_extern)

            ours.add(traced)
            patches.enter_context(patched(module, _HOOK, traced))

        for name in _USERS:
            when(name, install)
        yield


def current_stage() -> str:
    """Say whether Inductor is at work on a forward, a backward or an inference graph."""
    from torch._inductor.virtualized import V

    if getattr(V.graph, "is_backward", False):
        return "backward"
    return "inference" if getattr(V.graph, "is_inference", False) else "forward"


def _describe(schedule: Any, name: str, is_extern: bool) -> dict[str, Any]:
    nodes = [schedule] if is_extern else [node.node for node in schedule if getattr(node, "node", None) is not None]
    origins = [origin for node in nodes for origin in origins_of(node, exact=is_extern)]
    return {
        "stage": current_stage(),
        "name": name,
        "language": _language(nodes, is_extern),
        "ops": ops_of(origins),
        "stacks": list(dict.fromkeys(trace for node in nodes for trace in node.get_stack_traces())),
    }


def _language(nodes: list[Any], is_extern: bool) -> str:
    if is_extern:  # a call of a library's kernel, or of one that the user wrote (2.13, _inductor/ir.py)
        return "triton" if type(nodes[0]).__name__ == "UserDefinedTritonKernel" else "external"
    from torch._inductor import config

    device = next((device for node in nodes if (device := node.get_device()) is not None), None)
    kind = device.type if device is not None else "cpu"
    return str(getattr(config, f"{kind}_backend", "triton"))
