"""Graphs for which there is no code: the program goes on, as it does not run on the GPU, and the log says why.

Whether torch would fail on the real GPU too is not known, except of two kinds. Tensors of two devices that meet it
finds as it traces the moved graph (2.11 to 2.13, _subclasses/fake_tensor.py: `_find_common_device`). And where Inductor
asks for the function to be skipped, Dynamo leaves it in eager (_dynamo/output_graph.py: `call_user_compiler`), as with
bfloat16 on a GPU that has none (_inductor/compile_fx.py: `_check_triton_bf16_support`). With caches off, as here, torch
wraps that into an error; with them on it does not.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ctrace.inspector.capture.core.recorder import Recorder, compile_context

_MEETING = re.compile(r"at least two devices|two different devices|on the same device")
_REFUSED = {"BF16 is not supported": "it has no bfloat16 arithmetic of its own; float16 and float32 compile there"}
_PLACE = re.compile(r'File "([^"\n]+)", line (\d+), in ')


@contextmanager
def without_code(recorder: Recorder, target: str) -> Iterator[None]:
    """Turn a failure to emit a graph for `target` into a problem."""
    from torch._dynamo.exc import RestartAnalysis

    try:
        yield
    except RestartAnalysis:  # Dynamo shall trace the function anew; not a failure
        raise
    except Exception as error:
        recorder.problem(_told(error, target))


def _told(error: Exception, target: str) -> str:
    from torch._dynamo.exc import SkipFrame

    text = str(error).strip()
    if _MEETING.search(text):
        return (
            f"this would raise on the GPU{_place(text)}: a tensor on the CPU meets one on the GPU."
            " A tensor that is made without a device is on the CPU: give it `device=x.device`"
        )
    if isinstance(getattr(error, "inner_exception", error), SkipFrame):
        return (
            f"torch would leave the function of {graph_name()} in eager on {target}, and raise with fullgraph=True:"
            f" {_REFUSED.get(text.removeprefix('SkipFrame: '), text)}"
        )
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"no code of {graph_name()} was emitted for {target}: {type(error).__name__}: {first}{_place(text)}"


def graph_name() -> str:
    """Name the graph that is being compiled."""
    context = compile_context()
    return f"graph {context['frame_id']}/{context['frame_compile_id']}" if context else "a graph"


def _place(text: str) -> str:
    """Name the innermost line of the user's that torch quotes after its message."""
    places = _PLACE.findall(text.partition("Original traceback")[2])
    return f" at {places[-1][0]}:{places[-1][1]}" if places else ""
