"""Recognize training steps that are compiled as a whole: torch breaks at backward() and in the optimizer's wrapper."""

import re
from collections.abc import Iterator

from ctrace.inspector.facts.findings import Break, Frame
from ctrace.inspector.facts.session import Session

BACKWARD = ("GB0123",)
_OPTIMIZER = re.compile(r"\bOptimizer\.\w+|torch\.optim\.|\b[A-Z]\w*\.step\b.*torch/optim")
_AUTOGRAD = re.compile(r"[/\\]torch[/\\](?:_tensor\.py|autograd[/\\])")
_IN_OPTIM = re.compile(r"[/\\]torch[/\\]optim[/\\]")


def is_backward(each: Break) -> bool:
    """Whether compiled code runs a backward pass.

    A line such as `compiled(x).backward()` also calls backward, but the break may be inside the compiled call.
    """
    if set(each.gb) & set(BACKWARD):
        return True
    named = re.search(r"\.backward\(|autograd\.(?:grad|backward)\(", each.source) is not None
    return named and all(_leads_to_backward(path[-1], each) for path in each.paths if path)


def _leads_to_backward(frame: Frame, each: Break) -> bool:
    """Whether a break's innermost frame is at the user's line, or in torch's autograd."""
    at_line = (frame.file, frame.line) == (each.file, each.line)
    return at_line or "backward" in frame.function or _AUTOGRAD.search(frame.file) is not None


def is_of_optimizer(each: Break) -> bool:
    """Whether a break is at torch's wrapper around an optimizer, which breaks the graph or disables Dynamo."""
    inside = any(_IN_OPTIM.search(frame.file) for path in each.paths for frame in path)
    return inside or _OPTIMIZER.search(f"{each.called} {each.reason}") is not None


def steps(session: Session) -> Iterator[list[int]]:
    """Yield the breaks of each training function: at its optimizer, at its backward pass and after it."""
    by_function: dict[tuple[str, str], list[int]] = {}
    for index, each in enumerate(session.breaks):
        by_function.setdefault((each.file, each.function), []).append(index)
    for indices in by_function.values():
        breaks = {index: session.breaks[index] for index in indices}
        own = [index for index, each in breaks.items() if is_backward(each) or is_of_optimizer(each)]
        backward = [breaks[index].line for index in own if is_backward(breaks[index])]
        after = [index for index, each in breaks.items() if backward and each.line >= min(backward)]
        if own:
            yield sorted({*own, *after})
