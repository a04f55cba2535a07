"""Call compiled graphs without building a kernel, and add to the ledger what their kernels would allocate.

torch.compile does all that it does otherwise: Dynamo, AOTAutograd with its partitioner and its runtime, Inductor to the
wrapper. Only where it would build the wrapper (2.13, _inductor/graph.py, `GraphLowering.compile_to_module`), the graph
is called by an interpreter instead: operator by operator, from the graph that Inductor lowered. So what a forward saves
and when it is freed are as they would be. Memory inside of the graph is that of the wrapper (`wrapper_plan.py`).
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.calls.overlapping_tensors import bytes_spanned
from ctrace.inspector.capture.core.node_lines import place_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.inductor.record_passes import lines_of_replacements
from ctrace.inspector.features.memory.child.storage_ledger import (
    NOWHERE,
    CodeOrigin,
    Ledger,
    TrackedStorage,
    device_name,
    storage_of,
)
from ctrace.inspector.features.memory.child.wrapper_plan import (
    DescribedBuffer,
    PlanError,
    PlannedBuffer,
    WrapperOutcome,
    WrapperPlan,
)

_SETTINGS = {"fx_graph_cache": False, "fx_graph_remote_cache": False, "freezing": False, "cpp.vec_isa_ok": True}
"""Under these, the code of each graph is generated here. No choice is made by timing: nothing is built."""
_SEVERAL = 3
"""From so many graphs of one function on, there is one for each of its inputs: two are one with fixed and one with
dynamic sizes."""
_UNTIMED = ("max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "coordinate_descent_tuning")


class BufferFact(Struct, frozen=True):
    """What Inductor knows of a buffer, whose sizes may be expressions."""

    origin: CodeOrigin
    shape: tuple[Any, ...] = ()
    stride: tuple[Any, ...] = ()
    offset: Any = 0
    dtype: str = ""
    itemsize: int = 0
    is_parts: bool = False
    """Whether it stands for several results."""
    is_none: bool = False
    """Whether it takes no memory of its own, such as the write to another buffer."""
    aliases: tuple[str, ...] = ()
    op: str = ""
    device: str = "cpu"


class SavedOutput(Struct, frozen=True):
    """A result of a forward that only its backward uses."""

    index: int
    name: str
    node: Any


class PlannedGraph:
    """A graph that Inductor has lowered."""

    def __init__(self, graph: Any, ledger: Ledger, name: str) -> None:
        import torch

        self.name = name
        self.is_backward = bool(graph.is_backward)
        self.problem = ""
        self.calls = 0
        self.total_calls = 0
        code_under_way = _code_under_way()
        # 2.11 to 2.13, _functorch/_aot_autograd/runtime_wrappers.py: a backward is compiled in the forward's context.
        self.compilation = torch._guards.CompileContext.current_compile_id()
        self.function = _origin_of(code_under_way)
        self.entered = _origin_of(_resumed_from(code_under_way))
        """The function of the program that the graph is of; `function` may be what resumes it after a break."""
        self.last: WrapperOutcome | None = None
        self._ledger = ledger
        self._caller = NOWHERE
        """The user's line of the last call: a graph of modules of torch alone, such as a Sequential, has no other."""
        code, _ = graph.codegen()
        text = code.value if hasattr(code, "value") else str(code)
        self._facts = dict(facts_of(graph))
        # A copy, since Inductor goes on to change and to drop its graph.
        self._module = torch.fx.GraphModule(graph.module, _copied(graph.module.graph))
        self._interpreter = torch.fx.Interpreter(self._module)
        self._inputs = [each.name for each in self._module.graph.nodes if each.op == "placeholder"]
        self.saved = () if self.is_backward else tuple(_saved(self._module.graph))
        self.saved_bytes: dict[int, int] = {}
        """The bytes of each saved output at the last call, by index; without those that lie in another one's memory."""
        self.owned: set[int] = set()
        """The saved outputs that take memory of their own."""
        self.copied_bytes = 0
        """What a CUDA graph would copy at the last call: the inputs that may lie elsewhere in the next one."""
        self.kept_copies = 0
        """What of it a result lies in: later buffers of the graph's pool take the place of the rest."""
        self._is_copied = _copied_by_a_cuda_graph(graph)
        self.around: Callable[[], AbstractContextManager[Any]] = nullcontext
        """What each call runs in."""
        self._plan: WrapperPlan | None = None
        try:
            self._plan = WrapperPlan(text, lambda dtype: int(getattr(torch, dtype).itemsize))
        except (PlanError, SyntaxError) as error:
            self.problem = str(error)

    @property
    def graph(self) -> Any:
        """The graph that Inductor lowered."""
        return self._module.graph

    def line_of(self, node: Any) -> CodeOrigin:
        """Return the user's line that a node comes from, else the line that called the graph last."""
        file, line, function = place_of(node)
        if file is None:
            return self._caller
        return CodeOrigin(file, line, function)

    def call(self, arguments: list[Any], caller: CodeOrigin = NOWHERE) -> Any:
        """Call it as its caller calls a wrapper, whose list of arguments becomes empty."""
        import torch

        self._caller = caller
        self.calls += 1
        self.total_calls += 1
        if self._plan is None:
            return self._called(arguments)
        given = [_given(each, self._ledger) for each in arguments]
        copies = {
            place: bytes_spanned(value)
            for place, (value, stored) in enumerate(zip(arguments, given, strict=True))
            # The result of a graph lies in the pool already; `name` is that of its buffer there.
            if self._is_copied(place) and _is_tensor(value) and not (isinstance(stored, TrackedStorage) and stored.name)
        }
        self.copied_bytes = self.kept_copies = sum(copies.values())
        # A backward runs inside of a call of autograd that hooks may not see, so the graph says so itself.
        self._ledger.part, before = "backward" if self.is_backward else self._ledger.part, self._ledger.part
        with self._ledger.closed(), torch.no_grad():
            results = self._called(arguments)
        ended = self._ledger.ended_inside()
        described = [
            (each.bytes, each in ended, given.index(each)) if isinstance(each, TrackedStorage) else each
            for each in given
        ]
        try:
            outcome = self._plan.carried_out(described, self._described)
        except PlanError as error:
            self.problem = str(error)
            outcome = None
        # A plan that returns another number of results was read wrongly, and claims nothing.
        if outcome is None or len(outcome.results) != len(results):
            self._without_plan(results, ended)
        else:
            self.last = outcome
            kept = {each.argument for each in outcome.results if each is not None}
            self.kept_copies = sum(size for place, size in copies.items() if place in kept)
            results = self._applied(outcome, given, results, ended)
        self._ledger.part = before
        return results

    def copied_at(self, part: str) -> int:
        """Return the bytes of copies of inputs that a CUDA graph has in a part of a step."""
        if part == "backward":
            return self.kept_copies
        return self.copied_bytes

    def _called(self, arguments: list[Any]) -> list[Any]:
        try:
            with self.around():
                result = self._interpreter.boxed_run(arguments)
        finally:
            self._interpreter.env.clear()  # it would keep the results
        if isinstance(result, list | tuple):
            return list(result)
        return [result]

    def _without_plan(self, results: list[Any], ended: Mapping[TrackedStorage, None]) -> None:
        for each in ended:
            self._ledger.end(each)
        for each in results:
            if _is_tensor(each):
                self._ledger.add(each, self._caller, self.name)

    def _applied(
        self, outcome: WrapperOutcome, given: list[Any], results: list[Any], ended: dict[TrackedStorage, None]
    ) -> list[Any]:
        """Add what the wrapper does, and let each result's buffer live as long as the result."""
        ledger = self._ledger
        stored_of: dict[PlannedBuffer, TrackedStorage] = {}
        for step in outcome.steps:
            stored = stored_of.get(step.buffer) or _argument_of(step.buffer, given)
            if step.name:
                made = stored_of[step.buffer] = self._allocated(step.name)
                ledger.at = made.origin.text or step.by
                if stored is not None:  # its memory is used again
                    ended.pop(stored, None)
                    ledger.end(stored)
                ledger.resize(made, step.buffer.bytes)
                continue
            if stored is not None:
                ledger.at = step.by or ledger.at
                ended.pop(stored, None)
                ledger.end(stored)
        results = self._results(outcome, given, results, stored_of, ended)
        for left in ended:  # held by no name of the wrapper
            ledger.end(left)
        return results

    def _results(
        self,
        outcome: WrapperOutcome,
        given: list[Any],
        results: list[Any],
        stored_of: Mapping[PlannedBuffer, TrackedStorage],
        ended: dict[TrackedStorage, None],
    ) -> list[Any]:
        """Move each result that has memory of its own to a storage of its own, as the wrapper does."""
        first: dict[PlannedBuffer, Any] = {}
        taken: dict[int, PlannedBuffer | None] = {}
        made = []
        for value, buffer in zip(results, outcome.results, strict=True):
            if not _is_tensor(value) or storage_of(value) is None:
                made.append(value)
                continue
            key = value.untyped_storage()._cdata
            is_foreign = self._ledger.of(value) is not None or taken.get(key, buffer) is not buffer
            is_own = buffer is not None and buffer.argument is None
            # An interpreter returns views where the wrapper has buffers: `clone` makes the memory that the wrapper
            # would.
            if is_own and is_foreign and buffer not in first:
                with self._ledger.closed():  # its memory is the buffer's, which is counted
                    value = value.clone()
                key = value.untyped_storage()._cdata
            taken[key] = buffer
            made.append(value)
            if buffer is None:
                self._ledger.add(value, self._caller, self.name)
                continue
            stored = stored_of.get(buffer) or _argument_of(buffer, given)
            if stored is not None and buffer not in first:
                first[buffer] = value
                if is_own or stored in ended:
                    ended.pop(stored, None)
                    self._ledger.adopt(value, stored)
            elif stored is None:
                self._ledger.add(value, self._caller, self.name)
        self._mark_saved(outcome, made)
        return made

    def _mark_saved(self, outcome: WrapperOutcome, results: list[Any]) -> None:
        seen: set[PlannedBuffer] = set()
        for each in self.saved:
            if each.index >= len(results) or not _is_tensor(results[each.index]):
                continue
            buffer = outcome.results[each.index]
            self._ledger.mark((results[each.index],), "saved")
            if buffer is not None and buffer not in seen:
                seen.add(buffer)
                self.saved_bytes[each.index] = buffer.bytes
                if buffer.argument is None:
                    self.owned.add(each.index)

    def _allocated(self, name: str) -> TrackedStorage:
        fact = self._facts.get(name) or BufferFact(NOWHERE)
        shape = tuple(each for each in fact.shape if isinstance(each, int))
        if fact.origin.text:
            origin = fact.origin
        else:
            origin = self._caller
        return TrackedStorage(
            0,
            fact.device,
            origin,
            fact.op,
            shape if len(shape) == len(fact.shape) else (),
            fact.dtype,
            set(),
            part=self._ledger.part,
            name=name,
        )

    def _described(self, name: str, numbers: Mapping[str, int]) -> DescribedBuffer | None:
        fact = self._facts.get(name)
        if fact is None or fact.is_none:
            return DescribedBuffer(None)
        if fact.is_parts:
            return None
        if fact.aliases:
            return DescribedBuffer(None, fact.aliases)
        size = [_number(each, numbers) for each in fact.shape]
        stride = [_number(each, numbers) for each in fact.stride]
        offset = _number(fact.offset, numbers)
        if None in size or None in stride or offset is None:
            raise PlanError(f"{name} has a size that depends on values")
        reach = sum(((length or 1) - 1) * (step or 0) for length, step in zip(size, stride, strict=True))
        count = 0
        if 0 not in size:
            count = 1 + offset + reach
        return DescribedBuffer(count * fact.itemsize)


def _copied_by_a_cuda_graph(graph: Any) -> Callable[[int], bool]:
    """Return whether a CUDA graph copies an input into its pool, by the input's place.

    It copies those that are not static (2.13, _inductor/cudagraph_trees.py,
    `_allocate_and_copy_recording_inputs`). Parameters and buffers are static, and so is what a forward saves. No CUDA
    graph is made of code that writes to another input, or that Inductor has found unfit.
    """
    import torch

    context = torch._guards.TracingContext.try_get()
    metadata = None
    if context is not None:
        metadata = context.fw_metadata
    static = frozenset(() if metadata is None else metadata.static_input_indices or ())
    written = frozenset(graph.mutated_input_idxs)
    if graph.is_backward or metadata is None or graph.disable_cudagraphs_reason or written - static:
        return lambda _place: False
    return lambda place: place not in static


def _origin_of(code: CodeType | None) -> CodeOrigin:
    if code is None:
        return NOWHERE
    return CodeOrigin(code.co_filename, code.co_firstlineno, code.co_name)


def _resumed_from(code: CodeType | None) -> CodeType | None:
    """Return the function that a function of Dynamo's resumes after a graph break; another one as it is."""
    from torch._dynamo.resume_execution import ContinueExecutionCache

    if code is None:
        return None
    # 2.11 to 2.13, _dynamo/resume_execution.py: the metadata has the code of the original function
    known = ContinueExecutionCache.generated_code_metadata.get(code)
    if known is not None:
        code = known.code
    return code


def _code_under_way() -> CodeType | None:
    """Return the function that Dynamo compiles now: its code is a variable of a frame that waits for the backend."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_compile" and frame.f_code.co_filename.endswith("convert_frame.py"):
            code = frame.f_locals.get("code")
            if isinstance(code, CodeType):
                return code
        frame = frame.f_back
    return None


def _argument_of(buffer: PlannedBuffer, given: list[Any]) -> TrackedStorage | None:
    found = None
    if buffer.argument is not None:
        found = given[buffer.argument]
    if isinstance(found, TrackedStorage):
        return found
    return None


def _given(value: Any, ledger: Ledger) -> Any:
    """Return what is known of an argument, without a reference to it."""
    if _is_tensor(value):
        found = ledger.of(value)
        if found is None and not ledger.is_closed:
            found = ledger.add_unknown(value)
        return found
    if isinstance(value, int):
        return int(value)
    return None


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _copied(graph: Any) -> Any:
    import copy

    return copy.deepcopy(graph)


def _number(value: Any, numbers: Mapping[str, int]) -> int | None:
    """Return the value of a size, which may be an expression."""
    if isinstance(value, int):
        return value
    try:
        return int(value.subs({each: numbers[str(each)] for each in value.free_symbols}))
    except (AttributeError, KeyError, TypeError):
        return None


def facts_of(graph: Any) -> Iterator[tuple[str, BufferFact]]:
    """Yield what Inductor knows of each buffer of a graph whose code was generated."""
    from torch._inductor import ir

    for operation in graph.operations:
        inner = getattr(operation, "subgraph", None)  # the graph of `invoke_subgraph` is a function of the wrapper
        if inner is not None and inner.graph is not None:
            yield from facts_of(inner.graph)
    for name, buffer in graph.name_to_buffer.items():
        origin, op = _origin(buffer)
        layout = getattr(buffer, "layout", None)
        if isinstance(layout, ir.MultiOutputLayout):
            yield name, BufferFact(origin, is_parts=True, op=op)
            continue
        if not isinstance(layout, ir.Layout) or isinstance(layout, ir.NoneLayout):
            yield name, BufferFact(origin, is_none=True, op=op)
            continue
        aliases = tuple(map(str, buffer.get_inputs_that_alias_output()))
        yield (
            name,
            BufferFact(
                origin,
                tuple(map(_plain, layout.size)),
                tuple(map(_plain, layout.stride)),
                _plain(layout.offset),
                str(layout.dtype).removeprefix("torch."),
                layout.dtype.itemsize,
                aliases=aliases,
                op=op,
                device=device_name(layout.device),
            ),
        )


def _plain(size: Any) -> Any:
    """Return a size as a number, if it is one."""
    try:
        return int(size)
    except (TypeError, ValueError):
        return size


def _origin(buffer: Any) -> tuple[CodeOrigin, str]:
    """Return the line and the operator that a buffer is the result of."""
    node = None
    if hasattr(buffer, "get_origin_node"):
        node = buffer.get_origin_node()
    if node is not None:
        nodes = [node]
    else:
        # From the last node: of a fused buffer, that is the one whose result it holds.
        nodes = sorted(getattr(buffer, "origins", ()), reverse=True)
    for each in nodes:
        file, line, function = place_of(each)
        if file is not None:
            return CodeOrigin(file, line, function), str(each.target)
    return NOWHERE, str(nodes[0].target) if nodes else ""


def _saved(graph: Any) -> Iterator[SavedOutput]:
    """Yield the results of a forward beyond those that its caller gets."""
    import torch

    context = torch._guards.TracingContext.try_get()
    metadata = None
    if context is not None:
        metadata = context.fw_metadata
    if metadata is None:
        return
    output = next(each for each in graph.nodes if each.op == "output")
    results = output.args[0]
    if len(results) <= metadata.num_forward:
        return
    for index in range(metadata.num_forward, len(results)):
        node = results[index]
        if isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor):
            yield SavedOutput(index, node.name, node)


class PlannedGraphs:
    """Every graph that is compiled in a block, called without building it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.graphs: list[PlannedGraph] = []
        self.after_call: Callable[[], None] = lambda: None
        """What to do after a call of a graph that is no backward."""
        self.entered: set[CodeOrigin] = set()
        """The functions of the program that graphs are of."""
        self.around: Callable[[], AbstractContextManager[Any]] = nullcontext
        """What each call of a graph runs in."""
        self.caller: Callable[[FrameType | None], CodeOrigin] = lambda _frame: NOWHERE
        """Returns the line that a forward, which a frame calls, runs for."""
        self._callers: dict[Any, CodeOrigin] = {}
        """The line that called each compilation last; its backward runs for that line."""

    @contextmanager
    def active(self, settings: Mapping[str, Any] | None = None) -> Iterator[None]:
        """Plan graphs in the block."""
        from torch._functorch import config as of_autograd
        from torch._inductor import config
        from torch._inductor.cpu_vec_isa import VecISA
        from torch._inductor.graph import GraphLowering

        off = {name: False for name in _UNTIMED if hasattr(config, name)}
        with ExitStack() as stack:
            stack.enter_context(config.patch({**_SETTINGS, **off, "compile_threads": 1, **(settings or {})}))
            # A hit in the cache of AOTAutograd brings back code that was compiled before (2.13, _functorch/config.py),
            # and Inductor, which the plan is read from, is not asked.
            stack.enter_context(of_autograd.patch(enable_autograd_cache=False))
            stack.enter_context(lines_of_replacements())
            # Inductor compiles a test program with each set of vector instructions, and loads it in a process (2.13,
            # _inductor/cpu_vec_isa.py: `check_build`). The code is only read here, so no compiler is needed.
            stack.enter_context(patched(VecISA, "check_build", lambda _self, _code: True))
            stack.enter_context(patched(GraphLowering, "compile_to_module", self._planning()))
            yield

    def _planning(self) -> Callable[[Any], Any]:
        def compile_to_module(graph: Any) -> Any:
            with self._ledger.closed():
                planned = PlannedGraph(graph, self._ledger, f"graph {len(self.graphs)}")
            planned.around = self.around
            self.graphs.append(planned)
            self.entered.add(planned.entered)
            runner = SimpleNamespace(recursively_apply_fns=lambda _functions: None, partitions=[])

            def call(arguments: list[Any]) -> Any:
                if not planned.is_backward:
                    self._callers[planned.compilation] = self.caller(sys._getframe(1))
                result = planned.call(arguments, self._callers.get(planned.compilation, NOWHERE))
                if not planned.is_backward:
                    self.after_call()
                return result

            return SimpleNamespace(call=call, runner=runner, __file__="")

        return compile_to_module

    def kept(self) -> Iterator[tuple[CodeOrigin, int]]:
        """Yield each function with several graphs, as many as were compiled of it."""
        numbers: dict[CodeOrigin, int] = {}
        for each in self.graphs:
            if not each.is_backward and each.function.file is not None:
                numbers[each.function] = numbers.get(each.function, 0) + 1
        yield from ((function, number) for function, number in numbers.items() if number >= _SEVERAL)

    def problems(self) -> Iterator[str]:
        """Yield why nothing is known of the memory inside of a graph."""
        for each in self.graphs:
            if each.problem and each.calls:
                yield f"{each.name}: its memory is not known inside, only what goes in and comes out: {each.problem}"
