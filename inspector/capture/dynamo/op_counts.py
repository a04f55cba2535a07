"""Count the aten ops that a call dispatches, grouped by calling function, and those that are in no graph.

A dispatch mode counts both sides: in eager all ops, in a compiled call the ops outside of graphs. The difference is
the ops that graphs captured. Ops inside graphs are not counted, because a graph may split one eager op into several.
A mode that ignores compile internals neither keeps Dynamo from compiling nor adds a guard
(`TorchDispatchMode.ignore_compile_internals`, torch/utils/_python_dispatch.py, 2.11 and 2.13).
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.callers import OURS, folder_of_torch, folder_of_triton, place
from ctrace.inspector.facts.run_events import FunctionOps, LeftOps, OpsCounted

# Most common first; a report shows a handful, and a log should not grow with a loop over tokens.
_MOST_STACKS = 500
_CONVERSIONS = {
    "to_numpy_helper": f"torch{os.sep}_dynamo{os.sep}utils.py",
    "_as_tensor_fullprec": f"torch{os.sep}__init__.py",
}
"""Functions that the code that Dynamo makes calls, which dispatch, and their files (2.11 to 2.13): results of a graph
become arrays of NumPy, and Python floats whose value a graph takes as an input become tensors."""
_CONVERSION_DEPTH = 5
"""The frames in which to search: the functions call a method of a tensor, below wrappers of torch."""
_WRAPPERS = (f"torch{os.sep}_compile.py", f"torch{os.sep}_dynamo{os.sep}eval_frame.py")
"""The files of the frames between an op and a dispatch mode, which torch keeps from being compiled (2.13)."""
_FUNCTION = f"torch{os.sep}autograd{os.sep}function.py"
_RECURRENT = f"torch{os.sep}nn{os.sep}modules{os.sep}rnn.py"

_Site = tuple[tuple[CodeType, int], ...]


class OpCounts(Struct):
    """Ops of one call, keyed by origin: the stack frames outside torch, outermost first, with lines."""

    sites: Counter[_Site] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """The total number of ops."""
        return self.sites.total()


class OpCounter:
    """Counts dispatched aten ops: everywhere in a block, or only outside graphs."""

    def __init__(self) -> None:
        self._mode: Any = None
        self.runs = 0
        """How often a graph has run."""
        self.has_code_without_graph = False
        """Whether Dynamo made code that runs no graph: with `fullgraph` it does, and on a break before the first op."""

    def note_code(self, code: CodeType) -> None:
        """Look at the code that Dynamo made for a function."""
        # The names of its graphs: _dynamo/output_graph.py, `compile_and_call_fx_graph`, 2.11 to 2.13.
        self.has_code_without_graph |= not any(name.startswith("__compiled_fn") for name in code.co_names)

    @contextmanager
    def everywhere(self) -> Iterator[OpCounts]:
        """Count every op in the block."""
        counts = OpCounts()
        with _dispatch_mode(counts):
            yield counts

    @contextmanager
    def outside_graphs(self) -> Iterator[OpCounts]:
        """Count the ops in the block that no wrapped graph runs."""
        counts = OpCounts()
        self._mode = _dispatch_mode(counts)
        try:
            with self._mode:
                yield counts
        finally:
            self._mode = None

    def wrap(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the function that runs a graph, so that its runs are counted and its ops are not."""

        def run(*args: Any) -> Any:
            self.runs += 1
            if self._mode is None:  # nothing is counted now
                return graph(*args)
            with _without(self._mode):
                return graph(*args)

        return run


@contextmanager
def _without(mode: Any) -> Iterator[None]:
    """Remove the mode, so that the graph runs as it would without ctrace.

    Under a user's mode, or if torch no longer has these functions, keep the mode but stop counting.
    """
    from torch.utils import _python_dispatch as modes

    current = getattr(modes, "_get_current_dispatch_mode", None)
    without_top = getattr(modes, "_pop_mode_temporarily", None)
    # Only the topmost mode can be taken away without those of the user.
    if current is not None and without_top is not None and current() is mode:
        with without_top():
            yield
        return
    before, mode.counting = mode.counting, False
    try:
        yield
    finally:
        mode.counting = before


def _dispatch_mode(counts: OpCounts) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    torch_folder = folder_of_torch()

    class _Count(TorchDispatchMode):
        supports_higher_order_operators = True  # such as a user's Triton kernel or a torch.cond in a graph

        def __init__(self) -> None:
            super().__init__()
            self.counting = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            # Other namespaces hold operators of libraries and of compilers: the report counts PyTorch's own.
            if self.counting and getattr(func, "namespace", None) == "aten":
                caller = sys._getframe(1)
                site = _site(caller, torch_folder)
                if not _is_tritons(site) and not _is_conversion(caller) and not _saves_output(func, caller):
                    counts.sites[site] += 1
            return func(*args, **(kwargs or {}))

    return _Count()


def _site(frame: FrameType | None, torch_folder: str) -> _Site:
    """Return the frames that led to an op, without torch's, up to ctrace's frame that called the model."""
    site = []
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(OURS) and file != __file__:  # this file is on the stack as the mode that counts
            break
        if not file.startswith((torch_folder, OURS, "<frozen ")):
            site.append((countable(frame.f_code), frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(site))


def countable(code: CodeType) -> CodeType:
    """Return a hashable version of the code: Dynamo stores any object among its constants, even a dict."""
    try:
        hash(code)
    except TypeError:
        # Name, lines and bytecode still tell it apart from others.
        return code.replace(co_consts=())
    return code


def _is_conversion(frame: FrameType | None) -> bool:
    """Whether code of Dynamo dispatched an op to pass on a graph's inputs or results, as no code of the user does."""
    for _ in range(_CONVERSION_DEPTH):
        if frame is None:
            return False
        file = _CONVERSIONS.get(frame.f_code.co_name)
        if file is not None and frame.f_code.co_filename.endswith(file):
            return True
        frame = frame.f_back
    return False


def _saves_output(op: Any, frame: FrameType | None) -> bool:
    """Whether autograd detaches an output that a torch.autograd.Function or a recurrent layer saves for its backward.

    No code calls that op, it moves no data, and torch's profiler does not show it (autograd/function.py:apply, 2.13).
    oneDNN's layer saves three of its outputs (`mkldnn_rnn_layer`, 2.11 to 2.13); rnn.py itself detaches nothing.
    """
    if str(op) != "aten.detach.default":
        return False
    # These frames are between the op and the function that is looked for.
    while frame is not None and frame.f_code.co_filename.endswith(_WRAPPERS):
        frame = frame.f_back
    if frame is None:
        return False
    file = frame.f_code.co_filename
    return file.endswith(_RECURRENT) or (frame.f_code.co_name == "apply" and file.endswith(_FUNCTION))


def _is_tritons(site: _Site) -> bool:
    """Whether triton dispatched an op: its autotuner clears caches and restores buffers between measurements."""
    return bool(site) and site[-1][0].co_filename.startswith(folder_of_triton())


def describe(scenario: str, eager: OpCounts, left: OpCounts | None) -> OpsCounted:
    """Return the record of a scenario's ops: all of them by innermost function, those that run eagerly by stack.

    Ops without a user frame, such as those of a torch layer called directly, have no function.
    """
    functions: Counter[CodeType] = Counter()
    for site, ops in eager.sites.items():
        if site:
            functions[site[-1][0]] += ops
    stacks = []
    if left is not None:
        stacks = left.sites.most_common(_MOST_STACKS)
    return OpsCounted(
        scenario=scenario,
        eager=eager.total,
        left=None if left is None else left.total,
        functions=tuple(
            FunctionOps(code.co_filename, code.co_qualname, code.co_firstlineno, ops) for code, ops in functions.items()
        ),
        stacks=tuple(LeftOps(tuple(place(code, line) for code, line in site), ops) for site, ops in stacks),
    )
