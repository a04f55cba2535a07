"""Find the FX node that each line of a generated kernel comes from.

Torch keeps this only for whole kernels. A kernel's body is a function, `inner_fn` of an `ir.Loops`, made by lowering
one FX node; it calls the functions of the values that it inlines. So while the body is traced, the running function
identifies its FX node. The hook marks each node of the traced body with it (`loop_body.LightTracer`), and follows
bodies that are traced from other bodies (`V.interpreter.current_node`). At code generation, it assigns every line
written while such a node is interpreted to its FX node. The code generator sees none of this.
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
"""Attribute of a node in a traced body. Not a key of its `meta`, which C++ code generation reads (cpp.py:3896)."""
_SHORTEST = 3
"""Shorter lines contain only brackets."""
_LATE = ("index_expr",)
"""Ops that the tracer defers until a value is used, possibly in another function than the one that made them."""
_STORES = ("store", "store_reduction")

Written = dict[Any, dict[Any, list[Any]]]
"""FX nodes of each line, keyed by kernel object. A line is a text, or an object whose text is known only at the end."""


class Statements:
    """Records the origin of lines while code is generated; `take` returns those of one kernel."""

    def __init__(self) -> None:
        self._running: list[Any] = []
        self._node: Any = None
        self._written: dict[Any, Written] = {}

    def take(self, schedule: list[Any]) -> list[dict[int, list[Any]]]:
        """Return the lines and their origins for each kernel object that was written for these scheduler nodes.

        A line is identified by the checksum of its text without indentation.
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
        """Drop lines that belong to no called kernel."""
        self._written.clear()

    @contextmanager
    def collected(self, recorder: Recorder, when: When) -> Iterator[None]:
        """Record origins while the context is active."""
        with ExitStack() as patches:

            def install_ir(ir: ModuleType) -> None:
                # Each kind of loops is a dataclass below `Loops`, so this sees all of them as they are made.
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
        """Wrap the body of each `Loops`, so that `_running` has its FX node while the body runs."""
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

            # The dataclass is frozen.
            object.__setattr__(loops, "inner_fn", inner_fn)

        return post_init

    def _marking(self, original: Any) -> Any:
        from torch._inductor.virtualized import V

        running = self._running

        def create_node(tracer: Any, kind: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            node = original(tracer, kind, target, *args, **kwargs)
            if target in _LATE:
                return node
            # The innermost body that runs made the node; without one, the body was traced from another body.
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
        """Assign the lines of an index computation to no node, because several nodes use the index."""

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
        key = line if hasattr(line, "value_fn") else text
        if (known := lines.get(key)) is None:
            lines[key] = origins
        else:
            _join(known, origins)


def _join(known: list[Any], more: list[Any]) -> None:
    for each in more:
        if each not in known:
            known.append(each)


def _interpreted(virtualized: Any) -> Any:
    """Return the origin of the body's node that is being interpreted.

    A store belongs to the node that made its value: the buffer may be named after a later view.
    """
    node = getattr(virtualized.interpreter, "current_node", None)
    if node is not None and node.target in _STORES:
        node = next((each for each in reversed(node.all_input_nodes) if hasattr(each, _MARK)), node)
    return getattr(node, _MARK, None)


def _exact(node: Any) -> Any:
    """Return the FX node of a scheduler node's result, if there is exactly one."""
    get = getattr(node.node, "get_origin_node", None)
    return get() if get is not None else None
