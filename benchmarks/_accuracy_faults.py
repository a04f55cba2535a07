"""Put one fault into what Inductor generates, chosen at random from what a model's graphs have.

A fault of an operation is put in where Inductor lowers the node (so that the C++ source has it, wherever the node is
fused), and stays there when the same node is compiled again. A fault of a text changes the C++ source of one kernel
once. A fault of a graph changes a node after all passes. What was changed is appended to a file: the oracle.
"""

import json
import os
import random
import re
from pathlib import Path
from typing import Any

KINDS = ("constant", "swap", "mask", "range", "accumulator", "function", "tail")
_SWAPPED = (
    "aten.sub.Tensor",
    "aten.div.Tensor",
    "aten.lt.Tensor",
    "aten.gt.Tensor",
    "aten.ge.Tensor",
    "aten.le.Tensor",
)
_OTHER = {
    "aten.exp.default": "exp2", "aten.tanh.default": "sigmoid", "aten.sigmoid.default": "tanh",
    "aten.relu.default": "abs", "aten.sqrt.default": "abs", "aten.rsqrt.default": "reciprocal",
    "aten.log.default": "log2", "aten.sin.default": "cos", "aten.cos.default": "sin", "aten.log1p.default": "log2",
    "aten.expm1.default": "exp", "aten.amax.default": "amin", "aten.abs.default": "neg",
}  # fmt: skip
_FACTOR = 1.03


def install(spec: str) -> None:
    """Put in the fault of `seed:kind:stage:file`."""
    seed, kind, stage, file = spec.split(":", 3)
    _Fault(int(seed), kind, stage, Path(file)).install()


class _Fault:
    def __init__(self, seed: int, kind: str, stage: str, file: Path) -> None:
        self._draw = random.Random(seed)
        self._kind, self._stage, self._file = kind, stage, file
        self._chosen: tuple[str, str, str | None] | None = None
        self._text: str | None = None
        self._changed = ""
        self._is_next = False
        self._now: Any = None
        self._disabled: list[bool] = []

    def install(self) -> None:
        from torch._inductor import graph, ir
        from torch._inductor.codegen import cpp
        from torch._inductor.compiler_bisector import CompilerBisector

        lowering: Any = graph.GraphLowering
        reduction: Any = ir.Reduction
        scheduling: Any = cpp.CppScheduling
        self._node_run, self._reduce, self._define = (
            lowering.run_node, reduction.create.__func__, scheduling.define_kernel,
        )  # fmt: skip
        fault = self
        kernel_named = scheduling.codegen_comment

        def run_node(self: Any, node: Any) -> Any:
            return fault.lowered(self, node)

        def create(cls: Any, *args: Any, **kwargs: Any) -> Any:
            return fault.reduced(cls, *args, **kwargs)

        def define_kernel(self: Any, source: str, nodes: Any, *args: Any) -> Any:
            return fault._define(self, fault.written(source), nodes, *args)

        def codegen_comment(self: Any, schedule: Any, name: Any = None) -> Any:
            fault.note(schedule, name)
            return kernel_named(self, schedule, name)

        asked = CompilerBisector.disable_subsystem

        def disable_subsystem(*args: Any, **kwargs: Any) -> bool:
            fault._disabled.append(asked(*args, **kwargs))
            return fault._disabled[-1]

        bisector: Any = CompilerBisector
        bisector.disable_subsystem = disable_subsystem
        lowering.run_node = run_node
        reduction.create = classmethod(create)
        scheduling.define_kernel = define_kernel
        scheduling.codegen_comment = codegen_comment

    def add(self, **what: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(what) + "\n")

    def choose(self, lowering: Any) -> None:
        """Choose a node of the first graph of the wanted stage; end the process if it has none for this kind."""
        from torch._inductor.virtualized import V

        is_backward = bool(V.graph.is_backward)
        if self._chosen is not None or is_backward is not (self._stage == "backward"):
            return
        if self._kind == "text":
            return
        fitting = [each for each in lowering.module.graph.nodes if self._fits(each)]
        if not fitting:
            os._exit(1)  # each model has one graph of a stage: without a place in it, the rest of the run is of no use
        node = self._draw.choice(fitting)
        self._chosen = node.name, str(node.target), node.meta.get("stack_trace")
        self.add(node=node.name, op=str(node.target), stack=node.meta.get("stack_trace"), kind=self._kind)

    def _fits(self, node: Any) -> bool:
        import torch

        value = node.meta.get("val")
        if node.op != "call_function" or not node.meta.get("stack_trace") or not node.users:
            return False
        name = str(node.target)
        if self._kind == "constant":
            return any(isinstance(each, float) and each for each in node.args) and name.startswith("aten.")
        if self._kind == "swap":
            both = [each for each in node.args if hasattr(each, "meta")]
            return name in _SWAPPED and len(both) == 2 and both[0] is not both[1]
        if self._kind == "mask":
            return name == "aten.where.self"
        if self._kind in ("range", "accumulator"):
            sums = ("aten.sum.dim", "aten.mean.dim")
            return name.startswith((*sums, "aten.var_mean") if self._kind == "range" else sums)
        if self._kind == "function":
            return name in _OTHER
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 0
        return self._kind == "tail" and is_float and name.startswith(_POINTWISE)

    def _is_it(self, node: Any) -> bool:
        return self._chosen == (node.name, str(node.target), node.meta.get("stack_trace"))

    def lowered(self, lowering: Any, node: Any) -> Any:
        import torch

        if self._now is None:
            self.choose(lowering)
        if not self._is_it(node):
            return self._node_run(lowering, node)
        self._disabled.clear()
        if _is_bisecting():
            result = self._node_run(lowering, node)
            if any(self._disabled):
                return result  # the bisector leaves this node to eager: a fault of its lowering must go, too
        kept, target = node.args, node.target
        self._now = node
        try:
            if self._kind == "constant":
                node.args = tuple(each * _FACTOR if isinstance(each, float) else each for each in kept)
            elif self._kind == "swap":
                node.args = (kept[1], kept[0], *kept[2:])
            elif self._kind == "mask":
                whole = kept[1] if kept[1].meta["val"].shape == node.meta["val"].shape else kept[2]
                node.args = (kept[0], whole, whole)
            elif self._kind == "function":
                packet = getattr(torch.ops.aten, _OTHER[str(target)])
                node.target = packet.default
            result = self._node_run(lowering, node)
            return self._cut(result) if self._kind == "tail" else result
        finally:
            node.args, node.target, self._now = kept, target, None

    def _cut(self, result: Any) -> Any:
        """Leave out the last element of the last dimension."""
        from torch._inductor import ir
        from torch._inductor.virtualized import ops

        load, size, dtype = result.make_loader(), result.get_size(), result.get_dtype()

        def inner(index: Any) -> Any:
            at = ops.index_expr(index[-1], _int64())
            last = ops.index_expr(size[-1] - 1, _int64())
            return ops.where(ops.lt(at, last), load(index), ops.constant(0.0, dtype))

        return ir.Pointwise.create(device=result.get_device(), dtype=dtype, inner_fn=inner, ranges=list(size))

    def reduced(self, cls: Any, *args: Any, **kwargs: Any) -> Any:
        if self._now is None or self._kind not in ("range", "accumulator") or args:
            return self._reduce(cls, *args, **kwargs)
        from torch._inductor.virtualized import ops

        if self._kind == "range":
            ranges = list(kwargs["reduction_ranges"])
            ranges[-1] = ranges[-1] - 1
            kwargs["reduction_ranges"] = ranges
        else:
            import torch

            inner = kwargs["inner_fn"]

            def rounded(*index: Any) -> Any:
                # Not in the type that kernels compute in, which is float32 for both.
                short = ops.to_dtype(inner(*index), torch.bfloat16, use_compute_types=False)
                return ops.to_dtype(short, torch.float32, use_compute_types=False)

            kwargs["inner_fn"] = rounded
        return self._reduce(cls, **kwargs)

    def written(self, source: str) -> str:
        """Change the text of a kernel, once."""
        if self._kind != "text":
            return source
        if self._text is None:
            edits = [each for each in _texts(source) if each[1] != source]
            if not edits:
                return source
            what, changed = self._draw.choice(edits)
            self._text = source
            self.add(text=what, kind="text")
            self._changed = changed
            self._is_next = True
            return changed
        return self._changed if source == self._text else source

    def note(self, schedule: Any, name: Any) -> None:
        """Record which kernels have the node, or the changed text."""
        from torch._inductor.virtualized import V

        if self._is_next:
            self._is_next = False
            self.add(kernel=name)
        if self._chosen is None or V.graph.graph_id is None:  # or a piece that is compiled again
            return
        nodes = [each for item in schedule if hasattr(item, "get_nodes") for each in item.get_nodes()]
        for each in nodes:
            if each.node is not None and any(self._is_it(origin) for origin in each.node.origins):
                self.add(kernel=name)
                return


_POINTWISE = ("aten.mul", "aten.add.", "aten.tanh", "aten.exp.", "aten.relu", "aten.sigmoid", "aten.sub", "aten.div")
_MINUS = re.compile(r"(auto tmp\d+ = )(tmp\d+) - (tmp\d+);")
_NUMBER = re.compile(r"static_cast<float>\((\d+\.\d+(?:e-?\d+)?)\)")
_SUM = re.compile(r"(tmp_acc0_vec = tmp_acc0_vec \+ )(tmp\d+);")


def _texts(source: str) -> list[tuple[str, str]]:
    """Return changes of a C++ source: swapped operands, another constant, a term that is counted twice."""
    found = []
    for match in _MINUS.finditer(source):
        changed = f"{match[1]}{match[3]} - {match[2]};"
        found.append((match[0], source[: match.start()] + changed + source[match.end() :]))
    for match in _NUMBER.finditer(source):
        if float(match[1]) > 1e-3:
            changed = f"static_cast<float>({float(match[1]) * _FACTOR!r})"
            found.append((match[0], source[: match.start()] + changed + source[match.end() :]))
    for match in _SUM.finditer(source):
        changed = f"{match[1]}{match[2]} + {match[2]};"
        found.append((match[0], source[: match.start()] + changed + source[match.end() :]))
    return found


def _is_bisecting() -> bool:
    from torch._inductor.compiler_bisector import CompilerBisector

    return bool(CompilerBisector.bisection_enabled)


def _int64() -> Any:
    import torch

    return torch.int64
