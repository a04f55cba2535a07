"""List the candidates that Inductor would time on the target GPU, and choose one without timing (`left_open`).

Inductor makes the candidates (templates in each configuration, library calls) and passes them to
`AlgorithmSelectorCache` (2.11 to 2.13, _inductor/select_algorithm.py), which first builds them (`make_precompile_fn`)
and then times them (`do_autotuning`): only these two are replaced. The scheduler also times fusions
(`Scheduler.speedup_by_fusion` and `speedup_by_combo_kernel`, scheduler.py): these functions run until they need the
device.

A candidate is a `ChoiceCaller` (2.11 to 2.13, _inductor/ir.py); its subclasses are in select_algorithm.py.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.node_lines import stack_of
from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.record_kernels import ops_of, origins_of
from ctrace.inspector.facts.target_gpu import TimedCandidate, Undecided
from ctrace.inspector.source.stacks import user_lines

_LANGUAGES = {
    "TritonTemplateCaller": "triton",
    "ExternKernelCaller": "external",
    "SubgraphChoiceCaller": "graph",
    "CUTLASSTemplateCaller": "cutlass",
}
_SHOWN = 3
"""Shapes that the name of a choice has; more would not fit in a column."""


def candidate(choice: Any) -> TimedCandidate:
    """Describe one choice for the log."""
    return TimedCandidate(choice.name, _LANGUAGES.get(type(choice).__name__, ""), choice.description)


def taken_of(choices: list[Any]) -> Any:
    """Return the candidate that torch chooses when it does not time: a library call if there is one, else the first."""
    return next((choice for choice in choices if type(choice).__name__ == "ExternKernelCaller"), choices[0])


def subject_of(name: str, choice: Any) -> str:
    """Name an operation by the shapes and dtype of its inputs: `mm(128x64, 64x256) bfloat16`."""
    nodes = choice.input_nodes
    shapes = ["x".join(map(_factor, node.get_size())) for node in nodes[:_SHOWN]]
    more = []
    if len(nodes) > _SHOWN:
        more = ["..."]
    return f"{name}({', '.join(shapes + more)}) {str(nodes[0].get_dtype()).removeprefix('torch.')}"


def _factor(size: Any) -> str:
    text = str(size)
    if text.isalnum():
        return text
    return f"({text})"


_TIMED_BY = ("compile_kernel", "benchmark_fused_nodes", "benchmark_codegened_module")
"""The methods that the scheduler calls to time a fusion."""


def can_be_left_open() -> bool:
    """Whether this torch makes its choices in the functions that `left_open` patches."""
    # Asked first, because with only some of them replaced, torch would time on a device that is not there.
    return all(hasattr(owner, name) for owner, name, _ in _replaced())


@contextmanager
def left_open(recorder: Recorder) -> Iterator[None]:
    """Make Inductor list the candidates that it would time, and take one of them without timing.

    Raises:
        AttributeError: this torch makes its choices elsewhere, and would time them.
    """
    with ExitStack() as patches:
        for owner, name, make in _replaced():
            original = getattr(owner, name)
            patches.enter_context(patched(owner, name, functools.wraps(original)(make(original, recorder))))
        yield


def _replaced() -> Iterator[tuple[Any, str, Callable[[Any, Recorder], Any]]]:
    from torch._inductor.scheduler import Scheduler
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    yield AlgorithmSelectorCache, "make_precompile_fn", _listed
    yield AlgorithmSelectorCache, "do_autotuning", _ranked
    yield Scheduler, "speedup_by_fusion", _fused
    yield Scheduler, "speedup_by_combo_kernel", _combined
    yield from ((Scheduler, name, _out_of_reach) for name in _TIMED_BY)


class _DeviceNeeded(BaseException):
    """Ends a decision before timing; not an `Exception`, because torch catches those there."""


def _out_of_reach(_original: Any, _recorder: Recorder) -> Any:
    def needs_the_device(*_args: Any, **_kwargs: Any) -> Any:
        raise _DeviceNeeded

    return needs_the_device


def _listed(original: Any, recorder: Recorder) -> Any:
    """Record the candidates of one operation during lowering, without building them."""
    # By name, as the arguments may come by position or by keyword.
    signature = inspect.signature(original)

    def make_precompile_fn(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs).arguments
        with recorder.watching("the candidates of autotuning"):
            recorder.add(_described(call["name"], call["choices"]))
        # Torch calls what it gets to build all candidates; `dict()` builds nothing and returns no times.
        return dict

    return make_precompile_fn


def _described(name: str, choices: list[Any]) -> Undecided:
    from torch._inductor.virtualized import V

    node: Any = V.graph.current_node  # typed as if it were never None
    return Undecided(
        stage=current_stage(),
        kind="autotuning",
        subject=subject_of(name, choices[0]),
        taken=taken_of(choices).name,
        candidates=tuple(candidate(choice) for choice in choices),
        lines=_lines([] if node is None else [node]),
    )


def _ranked(original: Any, _recorder: Recorder) -> Any:
    """Rank the candidates as if they had been timed, with the chosen one first."""
    signature = inspect.signature(original)

    def do_autotuning(*args: Any, **kwargs: Any) -> dict[Any, float]:
        choices = signature.bind(*args, **kwargs).arguments["choices"]
        chosen = taken_of(choices)
        # Any two numbers in this order: torch takes the candidate with the least.
        return {chosen: 0.0, **{choice: 1.0 for choice in choices if choice is not chosen}}

    return do_autotuning


def _fused(original: Any, recorder: Recorder) -> Any:
    timed = _Fusions(recorder)

    def speedup_by_fusion(self: Any, node1: Any, node2: Any) -> Any:
        from torch._inductor.scheduler import FusionResult

        try:
            return original(self, node1, node2)
        except _DeviceNeeded:
            # A library call cannot absorb other ops; loops are fused by default (config.py, `benchmark_fusion`).
            fuse = not (node1.is_template() or node2.is_template())
        timed.record(self, [node1, node2], fuse)
        return FusionResult.fuse(fuse)

    return speedup_by_fusion


def _combined(original: Any, recorder: Recorder) -> Any:
    timed = _Fusions(recorder)

    def speedup_by_combo_kernel(self: Any, nodes: Any) -> Any:
        try:
            return original(self, nodes)
        except _DeviceNeeded:
            timed.record(self, nodes, True)
            return True

    return speedup_by_combo_kernel


class _Fusions:
    """Records each timed fusion once: the scheduler retries an unfused pair in every round."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # By scheduler, because nodes of different graphs have the same names.
        self._recorded: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()

    def record(self, scheduler: Any, nodes: list[Any], fuse: bool) -> None:
        with self._recorder.watching("a fusion that is timed"):
            recorded = self._recorded.setdefault(scheduler, set())
            names = " ".join(node.get_name() for node in nodes)
            if names not in recorded:
                recorded.add(names)
                self._recorder.add(_fusion(nodes, fuse))


def _fusion(nodes: list[Any], fuse: bool) -> Undecided:
    origins = [_origins(node) for node in nodes]
    named = zip(nodes, origins, strict=True)
    return Undecided(
        stage=current_stage(),
        kind="fusion",
        subject=" + ".join(f"{node.get_name()} ({_ops(each)})" for node, each in named),
        taken="fused" if fuse else "separate",
        candidates=(TimedCandidate("fused"), TimedCandidate("separate")),
        lines=_lines([*chain.from_iterable(origins)]),
    )


def _ops(origins: list[Any]) -> str:
    return ", ".join(op.removeprefix("aten.") for op in ops_of(origins))


def _origins(node: Any) -> list[Any]:
    return [origin for each in node.get_nodes() if each.node for origin in origins_of(each.node, exact=False)]


def _lines(nodes: list[Any]) -> tuple[str, ...]:
    stacks = (stack for node in nodes if (stack := stack_of(node)))
    return user_lines(stacks, library_prefixes())
