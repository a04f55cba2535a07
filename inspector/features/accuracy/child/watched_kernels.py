"""Let the code that Inductor generates tell before and after each kernel, with the tensors that it passes by name.

Inductor writes one Python function a graph, in which each buffer of its IR is a local variable of the same name. So a
line after each kernel call that passes `locals()` shows every tensor under the name that the scheduler uses, for C++,
Triton and library calls alike. While code is generated:

- `GraphLowering.run_node` tells which buffer has the value of which FX node: a node whose result is a `StorageBox` and
  no view of one (2.13, _inductor/graph.py).
- A comment marks each kernel call with a number of ours: `set_kernel_post_grad_provenance_tracing` returns it for
  fused kernels (the wrapper writes it down if it is not None), `Scheduler.codegen_extern_call` for the others.
- `GraphLowering._compile_to_module_lines` has the whole text, in which the lines are inserted before it is loaded.

Inputs are copied directly after the call before: later lines may give their memory to a result (`buf1 = buf0; del
buf0  # reuse`), and kernels write in place.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.inductor.record_passes import lines_of_replacements
from ctrace.inspector.capture.kernels.record_kernels import origins_of, scheduler_nodes
from ctrace.inspector.features.accuracy.child.node_values import writes_of
from ctrace.inspector.grouping import collected

_MARKER = re.compile(r"\s*# \[Provenance debug handles\] (?P<name>.*):ctrace(?P<number>\d+)$")
_LAUNCH = re.compile(r"^\s*(?P<name>\w+)(?:\.run)?\(", re.MULTILINE)
_PREPARES = re.compile(
    r"^\s*(\w+ = (empty_strided|reinterpret_tensor|alloc_from_pool|get_raw_stream)\w*\(|\w+ = \w+; del |del |#|assert)"
)
"""Lines between a mark and its call: memory and, for Triton, the stream (2.11 to 2.13, codegen/wrapper.py)."""
_CALLS = re.compile(r"^\s*(with |return )")
_CLEARS = "args.clear()"
"""The line after which a graph has taken its inputs; a graph without inputs lacks it (2.13, codegen/wrapper.py)."""
_ENTRY = re.compile(r"^\s*def call\((self, )?args\):$")
_RENAMES = re.compile(r"^\s*\w+ = \w+$")
_HOOKS = ("torch._inductor.debug", "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton")
_HOOK = "set_kernel_post_grad_provenance_tracing"


class WatchedCall(Struct, eq=False):
    """One call of a kernel in the code of a graph."""

    name: str
    is_external: bool
    is_view: bool
    """Whether it only takes one of several results of another call."""
    reads: dict[str, str]
    """The variable that holds each buffer that it reads."""
    writes: dict[str, str]
    origins: list[Any]
    """The FX nodes that it comes from."""
    node: Any = None
    """The one that a call of a library computes; None: not known."""


class WatchedGraph(Struct, eq=False):
    """A graph that Inductor generated code for."""

    module: Any
    """The graph after all passes, as it was lowered."""
    inputs: list[str]
    stage: str
    part: int
    calls: list[WatchedCall] = field(default_factory=list)
    buffers: dict[Any, str] = field(default_factory=dict)
    """The buffer with the value of each FX node that has one."""
    copies: dict[str, Any] = field(default_factory=dict)
    """The FX node of each buffer that has the value of a node in other strides, as a library needs them."""
    joined: frozenset[str] = frozenset()
    """Buffers that no call writes as a whole: each part of a concatenation is written by itself."""
    finished: dict[Any, int] = field(default_factory=dict)
    """The last call that writes each node's value: a first one may fill its buffer, before others add to it."""
    written: dict[Any, int] = field(default_factory=dict)
    """The last call that computes each node that writes into the memory of another one."""
    other_dtypes: list[Any] = field(default_factory=list)
    """Nodes whose dtype is another one after lowering."""
    instrumented: bool = False
    arguments: list[Any] = field(default_factory=list)
    """Copies of its inputs, if the graph that it comes from is wrong."""


class Listener:
    """Gets the calls of graphs and kernels as they end; this one does nothing."""

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Before the first kernel of a graph."""

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """After a kernel, and before anything reuses its inputs' memory."""


class CountingListener(Listener):
    """Counts the kernels of a call, and passes each on; what fails there is noted, and the model's call goes on."""

    def __init__(self, *inner: Listener) -> None:
        self._inner = inner
        self.kernels = self.graphs = 0
        self.failed: dict[tuple[str, str], None] = {}

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Count a graph."""
        self.graphs += 1
        for each in self._inner:
            self._pass(f"graph {graph.part}", partial(each.entered, graph, args, names))

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """Count a kernel."""
        self.kernels += not graph.calls[number].is_view
        for each in self._inner:
            self._pass(graph.calls[number].name, partial(each.called, graph, number, names))

    def _pass(self, what: str, hand_on: Callable[[], None]) -> None:
        try:
            hand_on()
        except Exception as error:
            self.failed[what, f"comparing it failed: {kind_and_message(error).splitlines()[0][:200]}"] = None


_listener = Listener()
_graphs: list[WatchedGraph] = []


def entered(graph: int, args: list[Any], names: dict[str, Any]) -> None:
    """Be called by generated code."""
    _listener.entered(_graphs[graph], args, names)


def called(graph: int, number: int, names: dict[str, Any]) -> None:
    """Be called by generated code."""
    _listener.called(_graphs[graph], number, names)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell this listener in the block."""
    global _listener  # noqa: PLW0603 - generated code has no other way to a listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


@contextmanager
def watched() -> Iterator[list[WatchedGraph]]:
    """Make code that is generated in the block tell; yield the graphs, which are added as they are compiled."""
    from importlib import import_module

    from torch._inductor import graph, ir, scheduler

    lowering = graph.GraphLowering
    found: list[WatchedGraph] = []
    with ExitStack() as patches:
        patches.enter_context(lines_of_replacements())
        for name in _HOOKS:
            module = import_module(name)
            patches.enter_context(patched(module, _HOOK, _marking(getattr(module, _HOOK))))
        external = scheduler.Scheduler.codegen_extern_call
        patches.enter_context(patched(scheduler.Scheduler, "codegen_extern_call", _marking_external(external)))
        patches.enter_context(patched(lowering, "run_node", _noting_values(lowering.run_node)))
        copying = staticmethod(_noting_copies(ir.ExternKernel.copy_input))
        patches.enter_context(patched(ir.ExternKernel, "copy_input", copying))
        name = "_compile_to_module_lines"
        patches.enter_context(patched(lowering, name, _instrumenting(getattr(lowering, name), found)))
        yield found


def _marking(original: Callable[..., Any]) -> Callable[..., Any]:
    def traced(schedule: Any, kernel_name: str, is_extern: bool = False) -> Any:
        if is_extern:
            return original(schedule, kernel_name, is_extern)
        from torch._inductor.virtualized import V

        nodes = scheduler_nodes(schedule)
        # Torch still gets its own call; its answer is not needed, since this one's is written into the code.
        original(schedule, kernel_name, is_extern)
        return _mark(V.graph, WatchedCall(kernel_name, False, False, *_buffers(V.graph, nodes), _origins(nodes)))

    return traced


def _marking_external(original: Callable[..., Any]) -> Callable[..., Any]:
    def codegen_extern_call(scheduler: Any, node: Any) -> Any:
        from torch._inductor.virtualized import V

        operation = node.node
        is_view = type(operation).__name__ == "MultiOutput"
        name = getattr(operation, "python_kernel_name", None) or type(operation).__name__
        if operation is not None:
            origins = list(operation.origins)
            exact = origins_of(operation, exact=True)
        else:
            origins = []
            exact = []
        # Several nodes may come together in one call: the one of its operator is what it computes.
        of_target = [each for each in exact if each.target is getattr(operation, "op_overload", None)] or exact
        only = None
        if len(of_target) == 1:
            only = of_target[0]
        call = WatchedCall(name, True, is_view, *_buffers(V.graph, [node]), origins, only)
        V.graph.wrapper_code.writeline(f"# [Provenance debug handles] {name}:{_mark(V.graph, call)}")
        return original(scheduler, node)

    return codegen_extern_call


def _mark(graph: Any, call: WatchedCall) -> str:
    calls = graph.__dict__.setdefault("_ctrace_calls", [])
    calls.append(call)
    return f"ctrace{len(calls) - 1}"


def _buffers(graph: Any, nodes: list[Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variable of each buffer that nodes of the scheduler read and write."""
    real = graph.scheduler.mutation_real_name
    written = dict.fromkeys(name for node in nodes for name in node.get_buffer_names())
    # What a kernel makes and reads itself is no input of it.
    read = dict.fromkeys(each.name for node in nodes for each in node.read_writes.reads if each.name not in written)
    return {name: real.get(name, name) for name in read}, {name: real.get(name, name) for name in written}


def _origins(nodes: list[Any]) -> list[Any]:
    operations = [each.node for each in nodes if each.node is not None]
    return list(dict.fromkeys(origin for each in operations for origin in origins_of(each, exact=False)))


def _noting_values(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_node(lowering: Any, node: Any) -> Any:
        result = original(lowering, node)
        storage: Any = getattr(result, "data", None)
        dtype = getattr(node.meta.get("val"), "dtype", None)
        if dtype is not None and hasattr(result, "get_dtype") and result.get_dtype() != dtype:
            lowering.__dict__.setdefault("_ctrace_other_dtypes", []).append(node)
        if type(storage).__name__ == "StorageBox":
            # What it is now is kept beside it: a storage gets other data when it is realized or written to.
            lowering.__dict__.setdefault("_ctrace_values", []).append((node, storage, storage.data))
        elif type(result).__name__ == "TensorBox":
            lowering.__dict__.setdefault("_ctrace_views", []).append((node, storage))
        return result

    return run_node


def _named_values(lowering: Any) -> dict[Any, str]:
    """Return the buffer of each node: what its storage was when it was lowered, or became when it was realized."""
    found = {}
    for node, storage, value in lowering.__dict__.get("_ctrace_values", ()):
        now = storage.data
        same = now is value or getattr(now, "data", None) is value
        if same:
            holder = now
        else:
            holder = value
        if hasattr(holder, "get_name"):
            name = getattr(holder, "name", None)
            if name is not None:
                found[node] = name
    # What an operator writes to is copied first, and the copy takes the place of the value (_inductor/graph.py:
    # `propagate_mutation`, and `mutate_to` in lowering.py).
    copies = _copies(lowering)
    for node, storage, _ in lowering.__dict__.get("_ctrace_values", ()):
        name = getattr(storage.data, "name", None)
        if node not in found and name is not None and copies.get(name) is node:
            found[node] = name
    return found


def _instrumenting(original: Callable[..., Any], found: list[WatchedGraph]) -> Callable[..., Any]:
    from torch._inductor.ir import NopKernel

    def compile_lines(lowering: Any, wrapper_code: Any) -> Any:
        graph = WatchedGraph(
            module=lowering.module,
            inputs=list(lowering.graph_input_names),
            stage=str(current_stage()),
            part=len(found),
            calls=lowering.__dict__.get("_ctrace_calls", []),
            buffers=_named_values(lowering),
            other_dtypes=lowering.__dict__.get("_ctrace_other_dtypes", []),
            joined=frozenset(name for name, each in lowering.name_to_buffer.items() if isinstance(each, NopKernel)),
        )
        text = instrumented(wrapper_code.value, len(_graphs))
        # Values that a kernel keeps in registers; their memory may have what was there before.
        removed = {*lowering.removed_buffers, *lowering.inplaced_to_remove}
        for call in graph.calls:
            call.writes = {name: each for name, each in call.writes.items() if name not in removed}
        graph.buffers = {node: name for node, name in graph.buffers.items() if name not in removed}
        graph.copies = {name: node for name, node in _copies(lowering).items() if name not in removed}
        graph.finished = _finished(graph)
        writing = {each for nodes in writes_of(graph.module.graph).to.values() for each in nodes}
        for number, call in enumerate(graph.calls):
            if not call.is_view:
                graph.written |= dict.fromkeys(writing & {*call.origins}, number)
        graph.instrumented = text != wrapper_code.value
        wrapper_code.value = text
        # Its place in this list is the number in its code, so it is added before that can run.
        _graphs.append(graph)
        found.append(graph)
        return original(lowering, wrapper_code)

    return compile_lines


def _noting_copies(original: Callable[..., Any]) -> Callable[..., Any]:
    def copy_input(value: Any) -> Any:
        from torch._inductor.virtualized import V

        result = original(value)
        if type(value).__name__ == "TensorBox":
            V.graph.__dict__.setdefault("_ctrace_copies", []).append((value.data, result))
        return result

    return copy_input


def _copies(lowering: Any) -> dict[str, Any]:
    """Return the node of each copy that a library needs, of a value that was lowered to the same storage or view."""
    nodes = {id(storage): node for node, storage, _ in lowering.__dict__.get("_ctrace_values", ())}
    nodes |= {id(view): node for node, view in lowering.__dict__.get("_ctrace_views", ())}
    pairs = lowering.__dict__.get("_ctrace_copies", ())
    return {copy.get_name(): nodes[id(storage)] for storage, copy in pairs if id(storage) in nodes}


def _finished(graph: WatchedGraph) -> dict[Any, int]:
    by_name = collected((name, node) for node, name in graph.buffers.items())
    found: dict[Any, int] = {}
    writing = {each for nodes in writes_of(graph.module.graph).to.values() for each in nodes}
    for number, call in enumerate(graph.calls):
        for name, variable in call.writes.items():
            found |= dict.fromkeys(by_name.get(name, ()), number)
            # An operator that writes to a finished value has it among its origins, but computes another one.
            if not (call.is_external and writing & {*call.origins}):
                found |= {each: number for each in by_name.get(variable, ()) if each in call.origins}
    return found


def _with_clearing(lines: list[str]) -> list[str]:
    """Let the code of a graph without inputs take none, as other graphs take theirs."""
    begin = next((at for at, line in enumerate(lines) if _ENTRY.match(line)), None)
    if begin is None or _CLEARS in map(str.strip, lines) or not any(map(_MARKER.match, lines)):
        return lines
    indent = lines[begin].partition("def")[0] + "    "
    return [*lines[: begin + 1], f"{indent}[] = args", indent + _CLEARS, *lines[begin + 1 :]]


def _entering(indent: str, graph: int, inputs: str) -> tuple[str, str]:
    module = "ctrace.inspector.features.accuracy.child.watched_kernels"
    return (
        # The generated module imports nothing of ours, so the line brings its own import.
        f"{indent}from {module} import entered as _entered, called as _called",
        f"{indent}_entered({graph}, [{inputs}], locals())",
    )


def instrumented(code: str, graph: int) -> str:
    """Insert lines that tell of each marked call into the code of a graph."""
    made, marked, renames, name = [], None, False, ""
    launched = {match["name"] for match in _LAUNCH.finditer(code)}
    for line in _with_clearing(code.splitlines()):
        made.append(line)
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip() == _CLEARS:
            # The arguments are already unpacked, in order, to the names of the graph's inputs.
            made += _entering(indent, graph, made[-2].partition(" = args")[0].strip().removeprefix("[]"))
        elif match := _MARKER.match(line):
            if renames:
                made.insert(-1, f"{indent}_called({graph}, {marked}, locals())")
            marked, renames, name = match["number"], False, match["name"]
        elif renames and line.strip().startswith("return "):
            made.insert(-1, f"{indent}_called({graph}, {marked}, locals())")
            marked, renames = None, False
        elif marked is not None and _RENAMES.match(line):  # it may be all that a call does, or come before it
            renames = True
        elif marked is not None and name in launched:  # sizes, workspaces and the stream come before
            launch = _LAUNCH.match(line)
            if launch is not None and launch["name"] == name:
                made.append(f"{indent}_called({graph}, {marked}, locals())")
                marked, renames = None, False
        elif marked is not None and not _PREPARES.match(line) and not _CALLS.match(line) and line.strip():
            made.append(f"{indent}_called({graph}, {marked}, locals())")
            marked, renames = None, False
    return "\n".join(made) + "\n"
