"""Record which backend compiled each graph (`graphs`), and the Python loops that Dynamo unrolled into it (`unrolled`).

Backends: `OutputGraph.call_user_compiler` (2.13, _dynamo/output_graph.py:3046); the structured trace has the graph, but
not the name of its backend.

Loops, with how often each body ran and the ops that it made: Dynamo executes bytecode by
`InstructionTranslatorBase.dispatch_table` (2.13, _dynamo/symbolic_convert.py:1235), which each translator class has for
itself. FOR_ITER pushes a value, or jumps to its target at the end; a `while` loop jumps backwards after each pass but
the last.
"""

import dis
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.node_lines import modules_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.eager_backend import RECORDED_AS
from ctrace.inspector.capture.dynamo.op_counts import OpCounter
from ctrace.inspector.facts.bytecode_facts import GraphMade, LoopsUnrolled, ModulesSeen
from ctrace.inspector.facts.graph_facts import Unrolled
from ctrace.inspector.source.stacks import frames_in, resumed

_CALLS = ("call_function", "call_method", "call_module")


def graphs(ops: OpCounter | None) -> Hook:
    """Make the hook that records each graph's backend and op count, and wraps the graph for `ops`."""

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:

            def install(_dynamo: ModuleType) -> None:
                from torch._dynamo.convert_frame import register_bytecode_hook
                from torch._dynamo.output_graph import OutputGraph

                def call(self: Any, gm: Any, example_inputs: Any) -> Any:
                    with recorder.watching("the modules of a graph"):
                        recorder.add(ModulesSeen(True, modules_of(gm.graph)))
                    with recorder.watching("a graph's backend"):
                        number = sum(node.op in _CALLS for node in gm.graph.nodes)
                        backend = _backend_name(self.compiler_fn)
                        recorder.add(GraphMade(backend, number, _wrapped_name(self)))
                    # After the records: the backend may change the graph, or fail.
                    compiled = original(self, gm, example_inputs)
                    if ops is None:
                        return compiled
                    return ops.wrap(compiled)

                with recorder.watching("graphs"):
                    # Dynamo calls it once for each graph, with the module that it traced; the log may tell the backend
                    # itself one day.
                    original = patches.enter_context(patched(OutputGraph, "call_user_compiler", call))
                if ops is not None:
                    with recorder.watching("code without a graph"):
                        handle = register_bytecode_hook(lambda _code, new: ops.note_code(new))
                        patches.callback(handle.remove)

            when("torch._dynamo", install)
            yield

    return hook


def _backend_name(compiler_fn: Any) -> str:
    # Dynamo's wrappers refer by it to what they wrap, down to the backend (the note at the top of convert_frame.py,
    # 2.13).
    while hasattr(compiler_fn, "_torchdynamo_orig_backend"):
        compiler_fn = compiler_fn._torchdynamo_orig_backend
    # For DDP, Dynamo calls a method of DDPOptimizer, which has the backend (2.11 to 2.13, backends/distributed.py).
    inner = getattr(getattr(compiler_fn, "__self__", None), "backend_compile_fn", None)
    if inner is not None:
        return _backend_name(inner)
    # torch.compile wraps a backend function (2.13, torch/__init__.py: `_TorchCompileWrapper`).
    ours = getattr(getattr(compiler_fn, "compiler_fn", compiler_fn), RECORDED_AS, None)
    # Ours first: the function of `tracing` is called `inductor`, for the errors that Dynamo shows.
    name = ours or getattr(compiler_fn, "compiler_name", None) or getattr(compiler_fn, "__name__", None)
    return str(name or type(compiler_fn).__name__)


def _wrapped_name(output_graph: Any) -> str | None:
    """Return the name of what Dynamo's wrapper calls: the class of a torch container or layer, or a torch function.

    Source: `wrap_inline` (2.13, _dynamo/external_utils.py:62), whose only local is `fn`.
    """
    from torch.nn import Module

    called = output_graph.local_scope.get("fn")
    module = getattr(called, "__self__", called)
    if isinstance(module, Module):
        return type(module).__name__
    return getattr(called, "__name__", None)


_UNROLLED_CALLS = ("call_function", "call_method", "call_module")
_BACKWARD = ("JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE")
_FOR = ("FOR_ITER", "SEND")
_FEW = 2
"""A body that runs less often is not unrolled."""

_PASSES = "_ctrace_passes"
"""An attribute of an OutputGraph, which is new in each attempt and not hashable: the passes of each loop."""
_Loop = tuple[str, int, str, int, int]
"""File, line, function, and the first and last line of the body."""


@contextmanager
def unrolled(recorder: Recorder, when: When) -> Iterator[None]:
    """Record the unrolled loops of each graph."""
    with ExitStack() as patches:

        def install(_dynamo: ModuleType) -> None:
            from torch._dynamo import symbolic_convert
            from torch._dynamo.output_graph import OutputGraph

            def call(self: Any, gm: Any, example_inputs: Any) -> Any:
                with recorder.watching("unrolled loops"):
                    if loops := _loops(gm.graph, vars(self).get(_PASSES, {})):
                        recorder.add(LoopsUnrolled(loops))
                return original(self, gm, example_inputs)

            def note(translator: Any, inst: Any, end: Any, first: int) -> None:
                with recorder.watching("unrolled loops"):
                    loop = _loop(translator, inst, end)
                    counted = vars(translator.output).setdefault(_PASSES, {})
                    counted[loop] = counted.get(loop, first) + 1

            with recorder.watching("unrolled loops"):
                for translator in list(vars(symbolic_convert).values()):
                    # A metaclass builds a table for each class that defines handlers, so patching the base alone would
                    # miss the others.
                    if isinstance(translator, type) and "dispatch_table" in vars(translator):
                        # A copy, so that torch's own table comes back at the end.
                        table = list(vars(translator)["dispatch_table"])
                        _watch(table, note)
                        patches.enter_context(patched(translator, "dispatch_table", table))
                original = patches.enter_context(patched(OutputGraph, "call_user_compiler", call))

        when("torch._dynamo", install)
        yield


def _watch(table: list[Any], note: Callable[[Any, Any, Any, int], None]) -> None:
    """Replace the entries of a dispatch table by ones that note each pass of a loop."""

    def iterate(original: Any) -> Any:
        def step(self: Any, inst: Any) -> None:
            # `step` has moved the pointer to the next instruction before it calls this (symbolic_convert.py:1564,
            # 2.13).
            after = self.instruction_pointer
            original(self, inst)
            # Unchanged: Dynamo goes on with the body. At the end of the loop, it jumps to the target.
            if self.instruction_pointer == after:
                note(self, inst, inst.target, 0)

        return step

    def jump(original: Any) -> Any:
        def step(self: Any, inst: Any) -> None:
            after = self.instruction_pointer
            original(self, inst)
            # The jump back of a `for` goes to its FOR_ITER, which `iterate` counts; that of an `await` goes to SEND.
            if self.instruction_pointer != after and inst.target.opname not in _FOR:
                # 1 for the pass before the first jump back.
                note(self, inst.target, inst, 1)

        return step

    for name, wrap in [("FOR_ITER", iterate), *((name, jump) for name in _BACKWARD)]:
        # POP_JUMP_BACKWARD_IF_TRUE and its like are in Python 3.11 alone.
        code = dis.opmap.get(name)
        if code is not None and table[code] is not None:
            table[code] = wrap(table[code])


def _loop(translator: Any, begin: Any, end: Any) -> _Loop:
    """Return the loop whose instructions are those from `begin` to `end`, a backward jump or what follows the loop."""
    inside = translator.instructions[translator.indexof[begin] : translator.indexof[end]]
    lines = [line for each in inside if (line := _line(each)) is not None]
    code = translator.f_code
    # A `while` tests its condition again at the end, so the jump backwards has the line of its head.
    heads = [line for each in (begin, *([end] if end.opname in _BACKWARD else [])) if (line := _line(each)) is not None]
    first = min(heads or lines, default=code.co_firstlineno)
    return code.co_filename, first, resumed(code.co_name)[0], min(lines, default=first), max(lines, default=first)


def _line(inst: Any) -> int | None:
    # Instructions that Dynamo itself adds have no positions.
    if inst.positions is not None:
        line = inst.positions.lineno
    else:
        line = inst.starts_line
    if isinstance(line, int):
        return line
    return None


def _loops(graph: Any, passes: dict[_Loop, int]) -> tuple[Unrolled, ...]:
    """Describe the loops that made ops of a graph."""
    many = {loop: times for loop, times in passes.items() if times >= _FEW}
    made = dict.fromkeys(many, 0)
    if not many:
        return ()
    # An op counts for each loop around it, so that an outer loop has those of the inner ones.
    for node in graph.nodes:
        if node.op in _UNROLLED_CALLS:
            stack = frames_in(node.stack_trace or "")
        else:
            stack = ()
        for loop in many:
            file, _, function, first, last = loop
            made[loop] += any((at.file, at.function) == (file, function) and first <= at.line <= last for at in stack)
    found = []
    for loop, times in many.items():
        file, line, function, *_ = loop
        if made[loop]:
            found.append(Unrolled(file, line, function, times, made[loop]))
    return tuple(found)
