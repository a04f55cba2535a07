"""Leave open whether to pad matrices for tensor cores, because torch decides that by timing on the device.

Torch first applies rules that need no timing (2.11 to 2.13, _inductor/fx_passes/pad_mm.py): settings, the device's
arithmetic and memory speed, cached times. These rules stay in effect. Where torch would time, pad nothing and record an
open choice. An exception ends torch's function early, so that torch does not cache an answer that was not measured.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.target_facts import TimedCandidate, Undecided

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@contextmanager
def padding_left_open(recorder: Recorder) -> Iterator[None]:
    """Keep torch from timing paddings, and record each padding that it would time."""
    from torch._inductor.fx_passes import pad_mm

    choices = _PaddingChoices(pad_mm._should_pad, pad_mm.get_cached_should_pad, recorder)
    with (
        patched(pad_mm, "_should_pad", choices.should_pad),
        patched(pad_mm, "get_cached_should_pad", choices.cached_should_pad),
    ):
        yield


class _WouldTimeError(Exception):
    """No rule and no cached time decides, so torch would time both forms."""


class _PaddingChoices:
    def __init__(self, should_pad: Any, cached_should_pad: Any, recorder: Recorder) -> None:
        self._should_pad = should_pad
        self._cached_should_pad = cached_should_pad
        self._recorder = recorder

    def should_pad(self, match: Any, mat1: Any, mat2: Any, op: Any, input: Any = None) -> bool:
        """Replace `_should_pad`."""
        try:
            return bool(self._should_pad(match, mat1, mat2, op, input))
        except _WouldTimeError:
            with self._recorder.watching("a choice of padding"):
                self._recorder.add(_choice(match, mat1, mat2, op))
            return False

    def cached_should_pad(self, key: str) -> bool:
        """Replace `get_cached_should_pad`, which torch calls last before it times."""
        known = self._cached_should_pad(key)
        if known is None:
            raise _WouldTimeError
        return bool(known)


def _choice(match: Any, mat1: Any, mat2: Any, op: Any) -> Undecided:
    from torch._inductor.fx_passes.pad_mm import get_alignment_size, get_padded_length

    multiple = get_alignment_size(mat1)
    padded = [[size + get_padded_length(size, multiple) for size in each.shape[-2:]] for each in (mat1, mat2)]
    sizes = [[*map(str, each.shape[:-2]), *map(str, last)] for each, last in zip((mat1, mat2), padded, strict=True)]
    dtype = str(mat1.dtype).removeprefix("torch.")
    return Undecided(
        stage=_stage(match),
        kind="padding",
        subject=f"{_product(op, [list(map(str, each.shape)) for each in (mat1, mat2)])} {dtype}",
        taken="not padded",
        candidates=(TimedCandidate("not padded"), TimedCandidate("padded", configuration=_product(op, sizes))),
        lines=_lines(match),
    )


def _product(op: Any, sizes: list[list[str]]) -> str:
    name = str(op).removeprefix("aten.")
    return f"{name}({', '.join('x'.join(each) for each in sizes)})"


def _stage(match: Any) -> Stage:
    """Return the stage of a matmul; a graph for training contains both forward and backward.

    AOTAutograd tags the nodes of such a graph (2.11 to 2.13, _aot_autograd/graph_capture_wrappers.py).
    """
    tag = match.output_node().meta.get("partitioner_tag")
    return {"is_forward": Stage.FORWARD, "is_backward": Stage.BACKWARD}.get(tag, Stage.INFERENCE)


def _lines(match: Any) -> tuple[str, ...]:
    frames = [_FRAME.findall(node.meta.get("stack_trace") or "") for node in match.nodes]
    return tuple(dict.fromkeys(":".join(found[-1]) for found in frames if found))
