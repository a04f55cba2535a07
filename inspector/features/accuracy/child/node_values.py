"""Compute nodes of a graph after all passes on values that compiled code has: in eager, in float64, and rounded.


After all passes, nodes may write into the memory of others: into inputs of the graph, and into copies of values. So
what a node reads depends on the writes before it, and they are computed with it, in the order of the graph.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic
from ctrace.inspector.capture.isolation.unnoticed import unnoticed

Values = dict[Any, Any]
"""Values of FX nodes."""


class NotComputableError(Exception):
    """A value cannot be computed outside of compiled code; the message says why."""


class RefusedError(NotComputableError):
    """Eager refuses an operation."""

    def __init__(self, node: Any, text: str) -> None:
        super().__init__(f"{operator_name(node)} cannot run by itself: {text}")
        self.node = node


class GraphWrites:
    """The nodes of a graph that write into memory, by the node whose memory it is, in the order of the graph."""

    def __init__(self, graph: Any) -> None:
        self.order = {node: at for at, node in enumerate(graph.nodes)}
        self.to: dict[Any, list[Any]] = {}
        for node in self.order:
            for each in written_arguments(node):
                self.to.setdefault(memory_of(each), []).append(node)

    def before(self, node: Any) -> list[Any]:
        """Return the writes into what a node reads, before it."""
        if not self.to:  # most graphs write to nothing
            return []
        bases = {memory_of(each) for each in node.all_input_nodes}
        return [each for base in bases for each in self.to.get(base, ()) if self.order[each] < self.order[node]]


_WRITES: WeakKeyDictionary[Any, GraphWrites] = WeakKeyDictionary()


def writes_of(graph: Any) -> GraphWrites:
    """Return the writes of a graph that no longer changes."""
    if graph not in _WRITES:
        _WRITES[graph] = GraphWrites(graph)
    return _WRITES[graph]


def written_arguments(node: Any) -> list[Any]:
    """Return the nodes that an operation writes to."""
    from torch import fx

    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return []
    given = {argument.name: value for argument, value in zip(schema.arguments, node.args, strict=False)}
    given |= node.kwargs
    written = [each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    values = [given.get(name) for name in written]
    flat = [each for value in values for each in (value if isinstance(value, list | tuple) else [value])]
    return [each for each in flat if isinstance(each, fx.Node)]


def has_own_result(node: Any) -> bool:
    """Whether an operation returns what is no alias of its arguments, such as one that also writes to them."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.returns) and all(each.alias_info is None for each in schema.returns)


def memory_of(node: Any) -> Any:
    """Return the node whose memory a value is in: itself, or what it is a view of, or what it has written to."""
    while (of := _aliased(node)) is not None:
        node = of
    return node


def _aliased(node: Any) -> Any:
    from torch import fx

    if node.op != "call_function" or not node.args:
        return None
    if node.target is operator.getitem:
        source, at = node.args
        if not isinstance(source, fx.Node):
            return None
        if source.args and isinstance(source.args[0], list | tuple):  # such as `_foreach_add_`
            written = written_arguments(source)
            if at < len(written):
                return written[at]
            return None
        return _aliased(source)
    schema = getattr(node.target, "_schema", None)
    is_alias = schema is not None and any(each.alias_info is not None for each in schema.returns)
    if is_alias and isinstance(node.args[0], fx.Node):
        return node.args[0]
    return None


def needed(outputs: Iterable[Any], known: Mapping[Any, Any]) -> list[Any]:
    """Return the nodes to compute for some outputs, in the order of the graph; what is known is not computed again."""
    outputs = list(outputs)
    if not outputs:
        return []
    writes = writes_of(outputs[0].graph)
    found: set[Any] = set()
    waiting = [each for each in outputs if each not in known]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        waiting += [each for each in (*node.all_input_nodes, *writes.before(node)) if each not in known]
    return [each for each in writes.order if each in found]


def computed(
    module: Any, nodes: list[Any], known: Mapping[Any, Any], arithmetic: WatchedArithmetic, change: Callable[[Any], Any]
) -> Values:
    """Compute nodes one by one, each from the values of its arguments.

    Args:
        arithmetic: how to compute; `change` converts what is known first, and copies it.

    Raises:
        NotComputableError: an input is not known, or an operation raises, or draws random numbers.
    """
    import torch

    made = set(nodes)
    read = {each for node in nodes for each in node.all_input_nodes if each not in made and each in known}
    # Before the arithmetic is active: it would take the copying of memory between values for an operation.
    values: Values = {each: change(known[each]) for each in read}

    def value(node: Any) -> Any:
        if node not in values:
            raise NotComputableError(f"{node.name} is not an input of the kernel")
        return values[node]

    with ExitStack() as active:
        active.enter_context(torch.no_grad())
        for device in {"cpu", *(["cuda"] if torch.cuda.is_available() else [])}:
            # After all passes, the casts of autocast are nodes: it must not cast a second time.
            active.enter_context(torch.autocast(device, enabled=False))
        active.enter_context(arithmetic.active())
        for node in nodes:
            if node.op == "get_attr":
                values[node] = change(attribute(module, str(node.target)))
                continue
            if node.op != "call_function":
                raise NotComputableError(f"{node.name} is not an input of the kernel")
            if (why := cannot_repeat(node)) is not None:
                raise NotComputableError(why)
            values[node] = called_node(node, value)
    return values


def called_node(node: Any, value: Callable[[Any], Any]) -> Any:
    """Call the operation of a node; what it writes to changes.

    Args:
        value: returns the value of an argument.

    Raises:
        RefusedError: the operation raises.
    """
    from torch import fx

    try:
        if node.target is operator.getitem and written_arguments(node.args[0]) and value(node.args[0]) is None:
            return value(written_arguments(node.args[0])[node.args[1]])  # `_foreach_add_` and its like return nothing
        args, kwargs = fx.map_arg((node.args, node.kwargs), value)
        return node.target(*args, **kwargs)
    except Exception as error:
        text = str(error).strip().partition("\n")[0][:120]
        raise RefusedError(node, text) from error


def attribute(module: Any, path: str) -> Any:
    """Return the attribute of a module at a dotted path."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def operator_name(node: Any) -> str:
    """Return a node's operation without its overload, such as `aten.relu`."""
    packet = getattr(node.target, "overloadpacket", node.target)
    if packet is not node.target:
        return str(packet)
    return getattr(node.target, "__name__", str(node.target))


def name_in_eager(node: Any) -> str:
    """Return the operation that eager runs, where a node only converts the result of its decomposition."""
    original = node.meta.get("original_aten")
    is_cast = str(node.target).startswith("prims.convert_element_type")
    if is_cast and hasattr(original, "overloadpacket"):
        return str(original.overloadpacket)
    return operator_name(node)


def _drops_nothing(node: Any) -> bool:
    """Whether an operation such as attention draws no random numbers: its probability of dropout is zero."""
    names = [each.name for each in node.target._schema.arguments]
    defaults = {each.name: each.default_value for each in node.target._schema.arguments if each.has_default_value()}
    given = {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    return given.get("dropout_p") == 0.0


def cannot_repeat(node: Any) -> str | None:
    """Say why a second run of an operation means nothing; None: it can be repeated."""
    import torch

    draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and not _drops_nothing(node)
    if draws or "inductor_rand" in str(node.target):
        return f"{operator_name(node)} draws random numbers"
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return f"{node.target.name()} has no definition in PyTorch"
    if str(node.target).startswith(("_c10d_functional", "c10d")):
        return f"{operator_name(node)} communicates with other processes"
    if not _is_in_program:
        return None
    return why_not_again(node) or None


_is_in_program = False


@contextmanager
def in_program() -> Iterator[None]:
    """Leave operators of others alone in the block: a program may count on when its own ones are called."""
    global _is_in_program  # noqa: PLW0603 - generated code has no other way here
    _is_in_program = True
    try:
        yield
    finally:
        _is_in_program = False


_OF_TORCH = frozenset(
    ("aten", "prims", "prim", "inductor", "mkldnn", "mkldnn_prepacked", "onednn", "quantized",
     "quantized_decomposed", "higher_order")
)  # fmt: skip
_PURE = frozenset(("torch", "builtins", "_operator", "operator", "math", "itertools", "functools"))


def is_of_torch(namespace: str) -> bool:
    """Whether torch itself has the operators of a namespace."""
    return namespace in _OF_TORCH


def why_not_again(node: Any) -> str:
    """Say why a program might notice a second run of a node; empty: it does not."""
    target = node.target
    if node.op == "call_module":
        return "it calls a module of the program, which is not called a second time"
    if node.op != "call_function":
        return ""
    name = operator_name(node)
    namespace = getattr(target, "namespace", None)
    if "c10d" in str(target) or "c10d" in str(getattr(target, "__module__", "")):
        return f"{name} communicates with other processes"
    if isinstance(namespace, str):
        is_own = not is_of_torch(namespace)
    else:
        module = str(getattr(target, "__module__", None) or "torch")  # built-in functions of torch have none
        is_own = module.partition(".")[0] not in _PURE
    if not is_own:
        return ""
    return f"{name} is an operator of the program, which is not called a second time"


@contextmanager
def modes_off() -> Iterator[None]:
    """Let a program not notice what the block runs: its generators, its streams, and its modes of dispatch."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    # Subclasses of tensors that a program defines would see each call on a result of theirs.
    with _disable_current_modes(), unnoticed(), torch._C.DisableTorchFunctionSubclass():
        yield
