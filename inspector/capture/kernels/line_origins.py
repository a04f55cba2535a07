"""Which FX node each line of a generated kernel comes from.

Torch keeps this for whole kernels only. A kernel's body is a function, `inner_fn` of an `ir.Loops`, that lowering one
FX node made; calling it calls the functions of the values that it inlines. So it is known, while it is traced, whose
function is running: we note that on each node of the traced body (`loop_body.LightTracer`), follow bodies that are
traced again out of others (`V.interpreter.current_node`), and note at code generation, for every line that is written
while such a node is interpreted, which FX node it stands for. Nothing of it is seen by what writes the code.
Sources (2.11 and 2.13): _inductor/ir.py `Loops`, _inductor/loop_body.py, `SchedulerNode.codegen` of scheduler.py,
`IndentedBuffer.writeline` of utils.py.
"""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When

_MARK = "_ctrace_origin"
"""Attribute of a node in a traced body. Not in its `meta`, whose keys C++ code generation looks at (cpp.py:3896)."""
_SHORTEST = 3
"""Shorter lines hold brackets only."""
_LATE = ("index_expr",)
"""Ops that the tracer puts off until a value is used, in a function that need not have made them."""
_STORES = ("store", "store_reduction")

Written = dict[Any, dict[Any, list[Any]]]
"""By kernel object: the FX nodes of a line. A line is a text, or an object that knows its text at the end."""


class Statements:
    """Notes the origin of lines while code is generated; `take` gives those of the nodes of one kernel."""

    def __init__(self) -> None:
        self._running: list[Any] = []
        self._node: Any = None
        self._written: dict[Any, Written] = {}

    def take(self, schedule: list[Any]) -> list[dict[int, list[Any]]]:
        """Give, for each kernel object that was written for these scheduler nodes, its lines and their origins.

        A line is named by the checksum of its text without indentation.
        """
        kernels: Written = {}
        for node in schedule:
            for kernel, lines in self._written.pop(node, {}).items():
                merged = kernels.setdefault(kernel, {})
                for line, origins in lines.items():
                    text = line if isinstance(line, str) else line().strip()
                    _join(merged.setdefault(zlib.crc32(text.encode()), []), origins)
        return list(kernels.values())

    def clear(self) -> None:
        """Forget what was written for no kernel that is called."""
        self._written.clear()

    @contextmanager
    def collected(self, recorder: Recorder, when: When) -> Iterator[None]:
        """Watch while in the context."""
        with ExitStack() as patches:

            def install_ir(ir: ModuleType) -> None:
                patches.enter_context(patched(ir.Loops, "__post_init__", self._named(ir.Loops.__post_init__)))

            def install_body(loop_body: ModuleType) -> None:
                tracer = loop_body.LightTracer
                patches.enter_context(patched(tracer, "create_node", self._marking(tracer.create_node)))

            def install_scheduler(scheduler: ModuleType) -> None:
                from torch._inductor.utils import IndentedBuffer

                node, write = scheduler.SchedulerNode, IndentedBuffer.writeline
                patches.enter_context(patched(node, "codegen", self._generating(node.codegen)))
                patches.enter_context(patched(IndentedBuffer, "writeline", self._writing(write, recorder)))

            def install_triton(triton: ModuleType) -> None:
                name, kernel = "codegen_iteration_ranges_entry", triton.TritonKernel
                patches.enter_context(patched(kernel, name, self._apart(getattr(kernel, name))))

            when("torch._inductor.ir", install_ir)
            when("torch._inductor.codegen.triton", install_triton)
            when("torch._inductor.loop_body", install_body)
            when("torch._inductor.scheduler", install_scheduler)
            yield

    def _named(self, original: Any) -> Any:
        """Have the body of each `Loops` say, while it runs, which FX node it was made for."""
        from torch._inductor.virtualized import V

        running = self._running

        def post_init(loops: Any) -> None:
            original(loops)
            origin = getattr(V.graph, "current_node", None)  # only while a node is lowered
            inner = getattr(loops, "inner_fn", None)  # a scan or a sort has several
            if origin is None or inner is None:
                return

            def inner_fn(*args: Any, **kwargs: Any) -> Any:
                running.append(origin)
                try:
                    return inner(*args, **kwargs)
                finally:
                    running.pop()

            object.__setattr__(loops, "inner_fn", inner_fn)

        return post_init

    def _marking(self, original: Any) -> Any:
        from torch._inductor.virtualized import V

        running = self._running

        def create_node(tracer: Any, kind: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            node = original(tracer, kind, target, *args, **kwargs)
            if target in _LATE:
                return node
            if running:
                setattr(node, _MARK, running[-1])
            elif (origin := _interpreted(V)) is not None:
                setattr(node, _MARK, origin)
            return node

        return create_node

    def _generating(self, original: Any) -> Any:
        def codegen(node: Any, *args: Any, **kwargs: Any) -> Any:
            outer, self._node = self._node, node
            try:
                return original(node, *args, **kwargs)
            finally:
                self._node = outer

        return codegen

    def _writing(self, original: Any, recorder: Recorder) -> Any:
        from torch._inductor.virtualized import V

        def writeline(buffer: Any, line: Any) -> Any:
            if self._node is not None:
                with recorder.watching("the lines of a kernel"):
                    self._note(V, line)
            return original(buffer, line)

        return writeline

    def _apart(self, original: Any) -> Any:
        """Have what is written meanwhile belong to no node: an index serves several."""

        def codegen(*args: Any, **kwargs: Any) -> Any:
            node, self._node = self._node, None
            try:
                return original(*args, **kwargs)
            finally:
                self._node = node

        return codegen

    def _note(self, virtualized: Any, line: Any) -> None:
        text = (line if isinstance(line, str) else getattr(line, "line", "")).strip()
        if len(text) < _SHORTEST:
            return
        origin = _interpreted(virtualized) or _exact(self._node)
        origins = [origin] if origin is not None else list(self._node.node.origins)
        lines = self._written.setdefault(self._node, {}).setdefault(virtualized.kernel, {})
        _join(lines.setdefault(line if hasattr(line, "value_fn") else text, []), origins)


def _join(known: list[Any], more: list[Any]) -> None:
    known.extend(each for each in more if each not in known)


def _interpreted(virtualized: Any) -> Any:
    """Give the origin of the body's node that is being interpreted.

    A store is of the line that made its value: the buffer may be known by a later view of it.
    """
    node = getattr(virtualized.interpreter, "current_node", None)
    if node is not None and node.target in _STORES:
        node = next((each for each in reversed(node.all_input_nodes) if hasattr(each, _MARK)), node)
    return getattr(node, _MARK, None)


def _exact(node: Any) -> Any:
    """Give the FX node that a scheduler node's result is, where it is exactly one."""
    get = getattr(node.node, "get_origin_node", None)
    return get() if get is not None else None
