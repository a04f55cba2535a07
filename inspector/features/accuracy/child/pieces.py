"""Compile a part of a graph by itself: to find the operation inside a kernel, and what makes its error go away.

The piece that computes a wrong buffer from the kernel's inputs becomes a graph of its own, on the same inputs.

1. **Which operation**: the piece is compiled with each of its values as an output. Inductor fuses it as before and
   stores every value, so that each operation is judged alone, on the values that the kernel itself made for it.
2. If that piece is right, operations are left to PyTorch one at a time (a fallback), until the error is gone.
3. **Why**: the piece is compiled again with one change at a time. Only a change after which the buffer is no longer
   wrong counts, with the error before and after.

A rounding may be what is wrong: eager rounds to 16 bits after each operation, and a fused kernel leaves roundings out.
To find the one, the nodes are computed in float32, which is what both compute with. Usually the kernel rounds at its
end only: its values are those without any other rounding. Then the operation whose rounding alone changes most values
is the one; of several with the same effect, the first, since operations such as `relu` only pass on what is rounded. If
the kernel has some of the roundings, it is the operation without whose rounding most values are the kernel's.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.comparing.precision import precision_of
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.node_lines import stack_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.features.accuracy.child.kernel_judge import StoredBuffer, ValueJudged, judged_value
from ctrace.inspector.features.accuracy.child.node_values import (
    NotComputableError,
    Values,
    memory_of,
    name_in_eager,
    needed,
    operator_name,
    writes_of,
    written_arguments,
)

_FITS = 0.02
"""The share of values that another order of float32 operations may change in their 16 bits."""


class LostRounding(Struct, frozen=True):
    """An operation whose result the kernel keeps in float32."""

    node: Any
    dtype: str


def lost_rounding(module: Any, nodes: list[Any], known: Values, node: Any, value: Any) -> LostRounding | None:
    """Return the operation whose rounding explains most of the difference; None: none explains any."""
    short = [each for each in nodes if is_short(each) and each is not node]
    if not short or any(map(written_arguments, nodes)):
        return None
    # Without any of the roundings but the last: a kernel that keeps all in float32 has just these values.
    with_none = _share(_values(module, nodes, known, set(short))[node], value)
    if with_none <= _FITS:
        shares = {each: _share(_values(module, nodes, known, {*short} - {each})[node], value) for each in short}
        best = max(short, key=lambda each: shares[each])
        explains = shares[best] > with_none
    else:
        with_all = _share(_values(module, nodes, known, set())[node], value)
        shares = {each: _share(_values(module, nodes, known, {each})[node], value) for each in short}
        best = min(short, key=lambda each: shares[each])
        explains = shares[best] < with_all
    if not explains:
        return None
    return LostRounding(best, str(best.meta["val"].dtype).removeprefix("torch."))


def reason_of(found: LostRounding) -> str:
    """Say which rounding is lost."""
    return f"the fused kernel keeps {name_in_eager(found.node)} in float32, where eager rounds it to {found.dtype}"


def _values(module: Any, nodes: list[Any], known: Values, unrounded: set[Any]) -> Values:
    import torch
    from torch import fx
    from torch.utils import _pytree

    def wide(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.dtype in short_dtypes():
                return value.float()
            return value
        if isinstance(value, torch.dtype) and value in short_dtypes():
            return torch.float32
        return value

    values: Values = {}
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        for node in nodes:
            if node.op == "get_attr":
                values[node] = wide(getattr(module, str(node.target)))
                continue
            args, kwargs = fx.map_arg((node.args, node.kwargs), {**known, **values}.__getitem__)
            args, kwargs = _pytree.tree_map(wide, (args, kwargs))
            result = node.target(*args, **kwargs)
            if is_short(node) and node not in unrounded:
                result = result.to(node.meta["val"].dtype)
            values[node] = result
    return values


def _share(one: Any, other: Any) -> float:
    """Return the share of values that differ in the kernel's dtype."""
    return float((one.to(other.dtype) != other).float().mean())


def short_dtypes() -> tuple[Any, ...]:
    """Return the dtypes of 16 bits."""
    import torch

    return (torch.float16, torch.bfloat16)


def is_short(node: Any) -> bool:
    """Whether a node has a value of 16 bits."""
    dtype = getattr(node.meta.get("val"), "dtype", None)
    return dtype in short_dtypes() and precision_of(dtype) is not None


COMPILING = {"fx_graph_cache": False, "fx_graph_remote_cache": False, "fallback_random": True, "graph_partition": False,
             "freezing": False, "triton.cudagraphs": False}  # fmt: skip
"""Settings under which every kernel runs on its own inputs, and random numbers are those of eager."""
COMPILING_AGAIN = {**COMPILING, "compile_threads": 1}
"""Those for a part of a graph: a program has ended then, after which Python starts no threads."""
# Chosen: each is a compilation, which takes seconds where a compiler builds the kernel.
_MOST_FALLBACKS = 10


class Remedy(Struct, frozen=True):
    """A change of how a piece is compiled, and what follows if the error is then gone."""

    reason: str
    remedy: str
    settings: dict[str, Any] = field(default_factory=dict)
    only: str = ""
    """The kind of device or the dtypes that it is about: `cpu`, `cuda`, `short`; empty: any."""


def _set(name: str, value: Any) -> str:
    return f"torch._inductor.config.{name} = {value!r}"


CHANGES = (
    Remedy(
        "the fused kernel leaves out a rounding to 16 bits that eager makes",
        _set("emulate_precision_casts", value=True),
        {"emulate_precision_casts": True},
        "short",
    ),
    Remedy("vectorized C++ code", _set("cpp.simdlen", 1), {"cpp.simdlen": 1}, "cpu"),
    Remedy(
        "approximate division", _set("eager_numerics.division_rounding", value=True),
        {"eager_numerics.division_rounding": True}, "cuda",
    ),
    Remedy("Triton's version of libdevice", _set("eager_numerics.use_pytorch_libdevice", value=True),
           {"eager_numerics.use_pytorch_libdevice": True}, "cuda"),
    Remedy("values below the smallest normal one are flushed to zero", _set("eager_numerics.disable_ftz", value=True),
           {"eager_numerics.disable_ftz": True}, "cuda"),
    Remedy("the fusion of several operations", _set("max_fusion_size", 1), {"max_fusion_size": 1}),
    Remedy("a sum that is split over blocks", _set("split_reductions", value=False),
           {"split_reductions": False}, "cuda"),
    Remedy("several threads", _set("cpp.threads", 1), {"cpp.threads": 1}, "cpu"),
)  # fmt: skip


class PieceFinding(Struct, frozen=True):
    """The operation in a kernel that makes its result wrong, and why."""

    node: Any = None
    """None: not found."""
    reason: str = ""
    remedy: str = ""
    remedy_error: float | None = None
    error: float | None = None
    """That of the operation by itself, on the values that the kernel made for its arguments; None: not known."""
    eager_error: float | None = None
    tried: int = 0
    """How many pieces were compiled."""
    failed: tuple[str, ...] = ()
    """What could not be tried, and why, if no reason is found."""


class Piece:
    """The nodes that compute one buffer of a kernel from its inputs."""

    def __init__(self, stored: StoredBuffer) -> None:
        self.stored = stored
        self.nodes = needed([stored.node, *stored.writes], stored.known)
        self.inputs = {each: value for each, value in stored.known.items() if _is_tensor(value)}
        self.compiled = 0
        self.failed: dict[str, None] = {}
        """What could not be compiled or judged, and why."""

    def values(self, outputs: Sequence[Any], settings: dict[str, Any], fallback: Any = None) -> Values:
        """Compile the piece and run it.

        Raises:
            Exception: whatever Inductor raises.
        """
        from torch import fx
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx_inner

        self.compiled += 1
        graph = fx.Graph()
        made: dict[Any, Any] = {each: graph.placeholder(each.name) for each in self.inputs}

        def argument(node: Any) -> Any:
            if node in made:
                return made[node]
            return self.stored.known[node]

        for node in self.nodes:
            if node not in made:
                made[node] = graph.create_node(
                    node.op, node.target, fx.map_arg(node.args, argument), fx.map_arg(node.kwargs, argument), node.name
                )
                # Without the values of the whole graph: Inductor computes them again for these inputs.
                made[node].meta = {name: each for name, each in node.meta.items() if name not in _OF_GRAPH}
                if settings.get("emulate_precision_casts") and _rounds_in_eager(node):
                    made[node].meta[_BARRIER] = True
        graph.output(tuple(made[each] for each in outputs))
        module = fx.GraphModule(self.stored.graph.module, graph)
        # Copies, because the compiled code writes to its inputs where the piece does.
        arguments = [each.clone() for each in self.inputs.values()]
        with config.patch({**COMPILING_AGAIN, **settings}), _falling_back(fallback):
            results = compile_fx_inner(module, arguments, is_inference=True)([each.clone() for each in arguments])
        return dict(zip(outputs, results, strict=True))

    def judged(self, settings: dict[str, Any], fallback: Any = None, *, is_strict: bool = False) -> ValueJudged | None:
        """Judge the buffer of the piece, compiled with these settings; None: it cannot be compiled so."""
        node = self.stored.node
        try:
            value = self.values([node], settings, fallback)[node]
            return judged_value(
                self.stored.graph.module, node, value, self.stored.known, writes=self.stored.writes, is_strict=is_strict
            )
        except Exception as error:
            how = ""
            if fallback is not None:
                how = f"with {fallback} in eager"
            how = ", ".join(f"with {name} = {value!r}" for name, value in settings.items()) or how
            self.note(how or "compiled by itself", error)
            return None

    def note(self, how: str, error: Exception) -> None:
        """Note what could not be tried."""
        self.failed[f"{how}: {kind_and_message(error).partition(chr(10))[0][:200]}"] = None


_BARRIER = "low_precision_pointwise_barrier"
"""What tells Inductor to round around a node with `emulate_precision_casts` (2.13, fx/experimental/proxy_tensor.py:
`_maybe_record_pointwise_barrier`). Torch notes it where it traces, so the nodes of a finished graph do not have it."""


def _rounds_in_eager(node: Any) -> bool:
    """Whether eager runs this operation by itself, on values or to a value of 16 bits: no part of a decomposition."""
    is_whole = str(node.meta.get("original_aten", node.target)) == str(node.target)
    return is_whole and any(map(is_short, (node, *node.all_input_nodes)))


_OF_GRAPH = ("val", "tensor_meta", "example_value", "unbacked_bindings")
"""What a node's `meta` says of values of the whole graph, with its symbols."""


def located(
    stored: StoredBuffer, reasons: dict[tuple[Any, ...], PieceFinding], *, most: int, against_eager: bool
) -> PieceFinding:
    """Find the operation that makes a buffer wrong, and the change that makes it right.

    Args:
        reasons: those found so far, by operation and line: the same one is not searched again, and at most `most` are.
    """
    # A call of a library is one operation: there is nothing to search in it, or to fuse otherwise.
    if stored.call.is_external:
        return PieceFinding(stored.node)
    if stored.late is not None:
        return PieceFinding(stored.late, "the kernel reads memory that a later line has already written to")
    piece = Piece(stored)
    if stored.judgement is not Judgement.WRONG:
        return _rounded_otherwise(piece)
    first = _first_wrong(piece)
    node = first.node
    key = _key(node)
    if node is not None and (key in reasons or len(reasons) >= most):
        known = reasons.get(key, PieceFinding(failed=(f"not searched for: that of {most} others was",)))
        return replace(
            first,
            reason=known.reason,
            remedy=known.remedy,
            remedy_error=known.remedy_error,
            tried=1,
            failed=known.failed,
        )
    found = _explained(piece, node, against_eager=against_eager)
    node = node or found.node or _only(piece.nodes) or next(iter(stored.writes[-1:]), None)
    if not found.reason:
        failed = tuple(piece.failed)
    else:
        failed = ()
    found = replace(
        found, node=node, error=first.error, eager_error=first.eager_error, tried=piece.compiled, failed=failed
    )
    reasons[_key(node)] = found
    return found


def _key(node: Any) -> tuple[Any, ...]:
    if node is None:
        return ()
    return (str(node.target), stack_of(node))


def _explained(piece: Piece, node: Any, *, against_eager: bool) -> PieceFinding:
    base = piece.judged({}, is_strict=against_eager)
    if base is None:
        return PieceFinding()
    if not _counts(base, against_eager=against_eager):  # so no change would prove anything
        piece.failed["it is right when it is compiled by itself"] = None
        return PieceFinding()
    found = _why(piece, against_eager=against_eager)
    if node is not None and found.reason:
        return found
    fallback = _by_fallback(piece, node, against_eager=against_eager)
    if found.reason:
        return replace(found, node=fallback.node)
    return fallback


def _rounded_otherwise(piece: Piece) -> PieceFinding:
    """Find the rounding that a kernel leaves out; what brings it back is tried where torch has it."""
    stored = piece.stored
    try:
        lost = lost_rounding(stored.graph.module, piece.nodes, stored.known, stored.node, stored.value)
    except Exception as error:
        piece.note("with other roundings", error)
        lost = None
    if lost is None:
        return PieceFinding(_only(piece.nodes), failed=tuple(piece.failed))
    change = next(each for each in CHANGES if each.only == "short")
    found = piece.judged(change.settings, is_strict=True)
    if found is not None and not _counts(found, against_eager=True):
        return PieceFinding(lost.node, reason_of(lost), change.remedy, found.error, tried=piece.compiled)
    return PieceFinding(lost.node, reason_of(lost), tried=piece.compiled)


def _counts(found: ValueJudged, *, against_eager: bool) -> bool:
    return found.judgement is Judgement.WRONG or (against_eager and found.is_other)


def _only(nodes: list[Any]) -> Any:
    """Return the only operation of some nodes that computes anything."""
    computing = [each for each in nodes if each.op == "call_function" and operator_name(each) not in _MOVING]
    if len(computing) != 1:
        return None
    return computing[0]


_MOVING = (
    "getitem", "aten.view", "aten.reshape", "aten.permute", "aten.expand", "aten.unsqueeze", "aten.squeeze",
    "aten.slice", "aten.select", "prims.convert_element_type", "aten.clone",
)  # fmt: skip
"""Operations that only move or convert values."""


def _first_wrong(piece: Piece) -> PieceFinding:
    """Find the first operation whose value is wrong, given the values that the kernel made for its arguments.

    What lies in memory that operations write into is left out: at the end of the kernel, it is no longer there.
    """
    written = writes_of(piece.stored.node.graph).to
    outputs = [each for each in piece.nodes if _is_tensor(each.meta.get("val")) and memory_of(each) not in written]
    try:
        values = piece.values(outputs, {})
    except Exception as error:
        piece.note("with each of its values as a result", error)
        return PieceFinding()
    module, inputs = piece.stored.graph.module, piece.stored.known
    for node in outputs:
        beside = {each: value for each, value in values.items() if each is not node}
        try:
            alone = judged_value(module, node, values[node], {**inputs, **beside})
            if alone.judgement is not Judgement.WRONG:
                continue
            if judged_value(module, node, values[node], inputs).judgement is Judgement.WRONG:
                return PieceFinding(_producer(node), error=alone.error, eager_error=alone.eager_error)
        except NotComputableError:
            continue
    return PieceFinding()


def _producer(node: Any) -> Any:
    """Return the operation that has a node as one of its results."""
    if operator_name(node) == "getitem":
        return node.args[0]
    return node


def _why(piece: Piece, *, against_eager: bool) -> PieceFinding:
    device = "cpu"
    if _is_tensor(piece.stored.value):
        device = piece.stored.value.device.type
    for change in CHANGES:
        if change.only not in ("", device, "short") or (change.only == "short" and not _is_short(piece)):
            continue
        # One operation is not fused with anything, so this would compile the same kernel again.
        if change.settings.get("max_fusion_size") and len(piece.nodes) < 2:
            continue
        found = piece.judged(change.settings, is_strict=against_eager)
        if found is not None and not _counts(found, against_eager=against_eager):
            return PieceFinding(None, change.reason, change.remedy, found.error)
    return PieceFinding()


def _by_fallback(piece: Piece, node: Any, *, against_eager: bool) -> PieceFinding:
    """Leave one operator at a time to PyTorch, the one that is known to be wrong first."""
    if node is not None:
        nodes = [node]
    else:
        nodes = [each for each in piece.nodes if operator_name(each) not in _MOVING]
    for each in [one for one in nodes if one.op == "call_function"][:_MOST_FALLBACKS]:
        found = piece.judged({}, each.target, is_strict=against_eager)
        if found is not None and not _counts(found, against_eager=against_eager):
            name = operator_name(each)
            remedy = f"torch._inductor.lowering.make_fallback(torch.ops.{each.target}, override_decomp=True)"
            return PieceFinding(each, f"Inductor's code for {name}", remedy, found.error)
    return PieceFinding()


def _is_short(piece: Piece) -> bool:
    return any(
        getattr(each.meta.get("val"), "itemsize", 0) == 2 and each.meta["val"].is_floating_point()
        for each in piece.nodes
        if _is_tensor(each.meta.get("val"))
    )


@contextmanager
def _falling_back(target: Any) -> Iterator[None]:
    """Leave an operator to PyTorch in the block."""
    with ExitStack() as patches:
        if target is not None:
            from torch._inductor import lowering

            handler = lowering.fallback_handler(target, add_to_fallback_set=False)
            patches.enter_context(patched(lowering, "lowerings", lowering.lowerings))
            known = dict(lowering.lowerings)
            lowering.lowerings[target] = handler
            patches.callback(_put_back, lowering.lowerings, known)
        yield


def _put_back(lowerings: dict[Any, Any], known: dict[Any, Any]) -> None:
    lowerings.clear()
    lowerings.update(known)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
