"""Record why a graph has no code for the target; the program goes on, because it does not run on the GPU.

Only two kinds of failures are known to happen on the real GPU, too. First, torch finds tensors on two devices in one op
while it traces the moved graph (2.11 to 2.13, _subclasses/fake_tensor.py: `_find_common_device`). Second, Inductor asks
to skip a function, and Dynamo leaves it in eager (_dynamo/output_graph.py: `call_user_compiler`), for example because
of bfloat16 on a GPU that does not support it (_inductor/compile_fx.py: `_check_triton_bf16_support`). With caches off,
as here, torch wraps that request in an error; with caches on, it does not.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ctrace.inspector.capture.core.recorder import Recorder, compile_context

_MEETING = re.compile(r"at least two devices|two different devices|on the same device")
_REFUSED = {"BF16 is not supported": "it does not support bfloat16; float16 and float32 compile there"}
_PLACE = re.compile(r'File "([^"\n]+)", line (\d+), in ')


@contextmanager
def without_code(recorder: Recorder, target: str) -> Iterator[None]:
    """Turn a failure to emit a graph for `target` into a problem."""
    from torch._dynamo.exc import RestartAnalysis

    try:
        yield
    except RestartAnalysis:  # Dynamo restarts tracing; not a failure
        raise
    except Exception as error:
        recorder.problem(_explanation(error, target))


def _explanation(error: Exception, target: str) -> str:
    from torch._dynamo.exc import SkipFrame

    text = str(error).strip()
    if _MEETING.search(text):
        return (
            f"this would raise on the GPU{_place(text)}: an op mixes tensors on the CPU and the GPU."
            " A tensor created without a device is on the CPU: create it with `device=x.device`"
        )
    if isinstance(getattr(error, "inner_exception", error), SkipFrame):
        return (
            f"torch would leave the function of {graph_name()} in eager on {target}, and raise with fullgraph=True:"
            f" {_REFUSED.get(text.removeprefix('SkipFrame: '), text)}"
        )
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"no code of {graph_name()} was emitted for {target}: {type(error).__name__}: {first}{_place(text)}"


def graph_name() -> str:
    """Return the name of the graph that is being compiled."""
    context = compile_context()
    if context:
        return f"graph {context['frame_id']}/{context['frame_compile_id']}"
    return "a graph"


def _place(text: str) -> str:
    """Return the innermost user line that torch quotes after its message."""
    places = _PLACE.findall(text.partition("Original traceback")[2])
    return f" at {places[-1][0]}:{places[-1][1]}" if places else ""
