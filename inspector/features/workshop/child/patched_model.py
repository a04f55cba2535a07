"""Compile the model twice in one process: unchanged, and with the package's passes.

Both sides have a backend of their own, so that Dynamo keeps their code apart and both can be timed in turn. Inductor's
caches of graphs are off, because a hit would run no pass.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.features.workshop.child.importing import Operator
from ctrace.inspector.features.workshop.child.package_passes import Passes, PassRewrite
from ctrace.inspector.features.workshop.child.regions import check_rewrite
from ctrace.inspector.features.workshop.kernel_packages.package_model import KERNEL_SECONDS, RegionCheck
from ctrace.inspector.runs.capture_request import Options

_MOST_SIZES = 8
"""How many sizes of a graph's inputs are checked."""


class CompiledPart(Struct):
    """One graph part that Inductor compiled: a forward, a backward or an inference graph."""

    graph: str
    stage: str
    rewrites: list[PassRewrite]
    checks: dict[tuple[int, str], RegionCheck] = field(default_factory=dict)
    """Keyed by the number of the rewrite and the node's name."""
    ran: set[tuple[object, ...]] = field(default_factory=set)
    """The sizes of the inputs that it was checked with."""
    unchecked: str = ""
    """Why the operators were not compared with what they replace; empty if they were."""


def _worse(one: RegionCheck | None, other: RegionCheck) -> RegionCheck:
    """Return the check that says more against a kernel: of other sizes of the same graph."""
    if one is None or not one.equal or not other.equal:
        return one if one is not None and not one.equal else other
    return max(one, other, key=lambda each: (each.kernel != "fallback", each.largest or 0.0))


def _stage(compile_arguments: Mapping[str, Any]) -> str:
    """Return which graph part `compile_fx_inner` compiles, by its keyword arguments."""
    if compile_arguments.get("is_backward"):
        return "backward"
    return "inference" if compile_arguments.get("is_inference") else "forward"


class CompiledSide:
    """One way to compile the model."""

    def __init__(
        self,
        options: Options,
        settings: Mapping[str, Any],
        passes: Passes | None = None,
        operators: Mapping[str, Operator] | None = None,
        before: Mapping[int, int] | None = None,
        seconds: float = KERNEL_SECONDS,
    ) -> None:
        """Compile with these values of Inductor's settings; with `passes`, check what they replaced.

        `before` has the number of compilations that each frame has had already; `seconds` is how long a kernel may
        take.
        """
        self._options = options
        self._settings = dict(settings)
        self._passes = passes
        self._operators = dict(operators or {})
        self._before = dict(before or {})
        self._seconds = seconds
        self.compiled_of: dict[int, int] = {}
        """How many compilations each frame has so far."""
        self.parts: list[CompiledPart] = []

    def compiled(self, model: Any) -> Any:
        """Return the model, compiled at its first call."""
        import torch

        return torch.compile(
            model, backend=self._backend(), dynamic=self._options.dynamic, fullgraph=self._options.fullgraph
        )

    def _backend(self) -> Callable[..., Any]:
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx

        chosen = list_mode_options().get(self._options.mode or "default", {})

        def backend(module: Any, inputs: Any) -> Any:
            patches = {**chosen, **self._settings, "fx_graph_cache": False, "fx_graph_remote_cache": False}
            return compile_fx(module, inputs, inner_compile=self._inner, config_patches=patches)

        return backend

    def _inner(self, module: Any, inputs: Any, **kwargs: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx_inner

        began = 0 if self._passes is None else len(self._passes.rewrites)
        compiled = compile_fx_inner(module, inputs, **kwargs)
        rewrites = [] if self._passes is None else self._passes.rewrites[began:]
        part = CompiledPart(self._graph(), _stage(kwargs), rewrites)
        self.parts.append(part)

        def run(values: Any) -> Any:
            sizes = tuple(tuple(getattr(each, "shape", ())) for each in values)
            if sizes not in part.ran and len(part.ran) < _MOST_SIZES:
                part.ran.add(sizes)
                self._check(part, list(values))
            return compiled(values)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _check(self, part: CompiledPart, values: list[Any]) -> None:
        for number, rewrite in enumerate(part.rewrites):
            if not rewrite.calls:
                continue
            try:
                with unnoticed():  # the graph may draw random numbers, which the model's call draws next
                    found = check_rewrite(rewrite, values, self._operators, self._seconds)
            except (
                Exception
            ) as error:  # an op that runs only in compiled code, or a kernel that ended the GPU's context
                part.unchecked = kind_and_message(error)[:300]
                continue
            for name, check in found.items():
                part.checks[number, name] = _worse(part.checks.get((number, name)), check)

    def _graph(self) -> str:
        """Return the compilation that is going on, such as `0/1`, as if no other side had compiled the model."""
        from torch._guards import CompileContext

        now = CompileContext.current_compile_id()
        if now is None:
            return "?"
        frame, number = int(now.frame_id or 0), int(now.frame_compile_id or 0)
        self.compiled_of[frame] = max(self.compiled_of.get(frame, 0), number + 1)
        return f"{frame}/{max(number - self._before.get(frame, 0), 0)}"
