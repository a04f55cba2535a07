"""Record every dimension of a compilation's input tensors, and its Python numbers: static, specialized or dynamic.

Source: `OutputGraph.tracked_fakes` (2.13, _dynamo/output_graph.py:723) and its `ShapeEnv`. Both are complete when
Dynamo calls `OutputGraph.cleanup` at the end of tracing (symbolic_convert.py:2015, a `finally`): the backend has seen
the graph, and Dynamo has not yet built the guards, which may raise a ConstraintViolationError.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, cast

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.shape_facts import Dim, NumberSeen, ShapesSeen, StaticTensor, Symbol, TensorSeen
from ctrace.inspector.knowledge.torch_names import DECLARED_SHAPES, STATIC_SOURCES

_MARKS = {
    "_dynamo_dynamic_indices": "dynamic",
    "_dynamo_weak_dynamic_indices": "maybe_dynamic",
    "_dynamo_static_indices": "static",
    "_dynamo_unbacked_indices": "unbacked",
    "_dynamo_strict_unbacked_indices": "unbacked",
}
"""Attributes that torch._dynamo.decorators sets on tensors: the dimensions of each mark."""
_FROM_FLOAT = "___as_tensor("
"""A Python float enters the graph as a tensor; torch lists the number, too."""


@contextmanager
def shapes(recorder: Recorder, when: When) -> Iterator[None]:
    """Record the shapes of each compilation, including one that fails."""
    with ExitStack() as patches:

        def install(_dynamo: ModuleType) -> None:
            from torch._dynamo.exc import RestartAnalysis, SkipFrame
            from torch._dynamo.output_graph import OutputGraph

            # `cleanup` drops the inputs of the graph and where they come from (2.13, _dynamo/output_graph.py), at the
            # end of each attempt to compile: the last moment at which both are known.
            def cleanup(self: Any) -> None:
                # Skip an attempt that restarts or captures nothing.
                if not isinstance(sys.exc_info()[1], RestartAnalysis | SkipFrame):
                    with recorder.watching("the shapes of a compilation"):
                        recorder.add(_described(self))
                original(self)

            with recorder.watching("shapes"):
                original = patches.enter_context(patched(OutputGraph, "cleanup", cleanup))

        when("torch._dynamo", install)
        yield


def _described(output_graph: Any) -> ShapesSeen:
    from torch._dynamo import config

    shape_env = output_graph.shape_env
    # Torch's contexts are keyed by tensor; the tensor has the marks, and the sizes of dimensions without a hint.
    # By identity: contexts are dataclasses, which compare by value.
    real = {id(context): tensor for tensor, context in output_graph.tracing_context.tensor_to_context.items()}
    tensors: list[TensorSeen] = []
    static: list[StaticTensor] = []
    numbers: list[NumberSeen] = []
    for tracked in output_graph.tracked_fakes:
        # A number is a SymInt or a SymFloat here.
        if not hasattr(tracked.fake, "shape"):
            numbers.append(_number(tracked, shape_env))
        elif not tracked.source.name.startswith(_FROM_FLOAT):
            tensor = _tensor(tracked, shape_env, real.get(id(tracked.symbolic_context)))
            # Parameters of a large model would fill the log with sizes that never change.
            if _is_plain(tensor):
                static.append(_short(tensor))
            else:
                tensors.append(tensor)
    return ShapesSeen(
        assume_static=bool(config.assume_static_by_default),
        automatic=bool(config.automatic_dynamic_shapes),
        declared=_has_declared_shapes(config),
        symbols=tuple(_symbol(symbol, shape_env) for symbol in shape_env.var_to_range),
        variable=tuple(tensors),
        static=tuple(static),
        numbers=tuple(numbers),
        conditions=tuple(str(guard.expr) for guard in shape_env.guards),
        listed_static=tuple(_listed_static(output_graph)),
    )


def _has_declared_shapes(config: Any) -> bool:
    """Whether torch.compile got `dynamic_shapes`."""
    name = DECLARED_SHAPES.of(config)
    return name is not None and getattr(config, name) is not None


def _symbol(symbol: Any, shape_env: Any) -> Symbol:
    bounds = shape_env.var_to_range[symbol]
    became = shape_env.replace(symbol)
    return Symbol(
        name=str(symbol),
        low=_whole(bounds.lower),
        high=_whole(bounds.upper),
        sources=tuple(source.name for source in shape_env.var_to_sources.get(symbol, ())),
        became=None if became == symbol else str(became),
        unbacked=bool(shape_env.is_unbacked_symint(symbol)),
    )


def _tensor(tracked: Any, shape_env: Any, real: Any) -> TensorSeen:
    fake, source, context = tracked.fake, tracked.source, tracked.symbolic_context
    strides = _strides(fake)
    if real is None:
        example = fake
    else:
        example = real
    example_strides = _strides(example)
    listed = _listed(source.name, len(fake.shape))
    dims = []
    for at, size in enumerate(fake.shape):
        stride = None
        if example_strides:
            stride = _hint(example_strides[at])
        marks = [*_marks(example, at)]
        if at in listed:
            marks.append("listed")
        dim = Dim(
            expression=str(size),
            symbol=_first_symbol(f"{source.name}.size()[{at}]", shape_env),
            size=_hint(example.shape[at]),
            stride=stride,
            stride_expression=str(strides[at]) if strides else "",
            policy=_at(context, "dynamic_sizes", at, lambda policy: policy.name.lower()),
            constraint=_at(context, "constraint_sizes", at, _constraint),
            marks=tuple(marks),
        )
        dims.append(dim)
    return TensorSeen(
        source=source.name,
        dtype=str(fake.dtype).removeprefix("torch."),
        role=_role(example, source.name),
        always_static=_always_static(example, source),
        dims=tuple(dims),
    )


def _is_plain(tensor: TensorSeen) -> bool:
    """Whether a tensor belongs to a module and is static only for that reason."""
    still = all(dim.policy == "static" and dim.expression.isdecimal() and not dim.marks for dim in tensor.dims)
    return tensor.role != "input" and still


def _short(tensor: TensorSeen) -> StaticTensor:
    return StaticTensor(
        source=tensor.source,
        dtype=tensor.dtype,
        role=tensor.role,
        always_static=tensor.always_static,
        sizes=tuple(int(dim.expression) for dim in tensor.dims),
    )


def _number(tracked: Any, shape_env: Any) -> NumberSeen:
    number = tracked.fake
    hint = getattr(number.node, "hint", None)
    kind = "int" if type(number).__name__ == "SymInt" else "float"
    marks: tuple[str, ...] = ()
    if _listed(tracked.source.name, 1):
        marks = ("listed",)
    return NumberSeen(
        source=tracked.source.name,
        type=kind,
        value=None if hint is None else str(hint),
        expression=str(number),
        symbol=_first_symbol(tracked.source.name, shape_env),
        marks=marks,
    )


def _first_symbol(source: str, shape_env: Any) -> str | None:
    symbol = shape_env.source_to_var.get(source)
    if symbol is None:
        return None
    return str(symbol)


def _hint(size: Any) -> int | None:
    """Return a size as a number, or None for a data-dependent one."""
    if type(size) is int:
        return size
    return _whole(getattr(size.node, "hint", None))


def _whole(value: Any) -> int | None:
    """Return a sympy number as an int, or None for an infinity or a fraction.

    A bound of more than 64 bits is an infinity, too: no size reaches it, and a reader refuses such a number.
    """
    text = str(value)
    number = None
    if text.removeprefix("-").isdecimal():
        number = int(text)
    if number is None or -(2**63) <= number < 2**63:
        return number
    return None


def _strides(tensor: Any) -> tuple[Any, ...]:
    import torch

    if tensor.layout is not torch.strided:
        return ()
    return tuple(tensor.stride())


def _at(context: Any, name: str, at: int, word: Any) -> str | None:
    values = getattr(context, name, None)
    found = None
    if values is not None and at < len(values):
        found = values[at]
    if found is None:
        return None
    text: str = word(found)
    return text


def _constraint(constraint: Any) -> str:
    """Return who made a dimension dynamic: the user, with or without a range, or torch, which saw it vary."""
    # `StrictMinMaxConstraint` has a range, `RelaxedUnspecConstraint` has none (fx/experimental/symbolic_shapes.py,
    # 2.13).
    if hasattr(constraint, "vr"):
        return "range"
    if constraint.warn_only:
        return "automatic"
    return "marked"


def _marks(tensor: Any, at: int) -> Iterable[str]:
    return dict.fromkeys(mark for name, mark in _MARKS.items() if at in getattr(tensor, name, ()))


def _listed(source: str, dims: int) -> list[int]:
    """Return the dimensions listed in TORCH_COMPILE_DYNAMIC_SOURCES; before 2.13 it lists only whole tensors."""
    import torch
    from torch._dynamo.variables.builder import is_dynamic_source

    if not torch.compiler.config.dynamic_sources:
        return []
    by_dim = is_dynamic_source.__code__.co_argcount > 1
    return [at for at in range(dims) if (is_dynamic_source(source, at) if by_dim else is_dynamic_source(source))]


def _listed_static(output_graph: Any) -> Iterator[str]:
    """Yield torch's names for the sizes and constants that TORCH_COMPILE_STATIC_SOURCES lists (2.15)."""
    import torch
    from torch._dynamo.variables import builder

    name, config = STATIC_SOURCES.of(builder), cast(Any, torch.compiler.config)
    if name is None or not config.static_sources:
        return
    is_static_source = getattr(builder, name)
    for tracked in output_graph.tracked_fakes:
        source = tracked.source.name
        for at in range(len(getattr(tracked.fake, "shape", ()))):
            if is_static_source(source, at):
                yield f"{source}.size()[{at}]"
    for guard in output_graph.guards:
        if guard.create_fn_name() == "CONSTANT_MATCH" and is_static_source(guard.name):
            yield guard.name


def _always_static(tensor: Any, source: Any) -> str | None:
    from torch._dynamo.utils import tensor_always_has_static_shape

    _is_static, reason = tensor_always_has_static_shape(tensor, True, source)
    if reason is None:
        return None
    return str(reason.name).lower()


def _role(tensor: Any, source: str) -> str:
    from torch.nn import Parameter

    if isinstance(tensor, Parameter):
        return "parameter"
    # A buffer is a plain tensor; only where it comes from tells.
    if "._buffers[" in source:
        return "buffer"
    return "input"
