"""Compute nodes of a graph after all passes on values that compiled code has: in eager, in float64, and rounded."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic
from ctrace.inspector.capture.isolation.unnoticed import unnoticed

Values = dict[Any, Any]
"""Values of FX nodes."""


class NotComputableError(Exception):
    """A value cannot be computed outside of compiled code; the message says why."""


def needed(outputs: Iterable[Any], known: Mapping[Any, Any]) -> list[Any]:
    """Return the nodes to compute for some outputs, in the order of the graph; what is known is not computed again."""
    outputs = list(outputs)
    found: set[Any] = set()
    waiting = [each for each in outputs if each not in known]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        waiting += [each for each in node.all_input_nodes if each not in known]
    return [each for each in (outputs[0].graph.nodes if outputs else ()) if each in found]


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
    from torch import fx

    values: Values = {}

    def value(node: Any) -> Any:
        if node not in values:
            if node not in known:
                raise NotComputableError(f"{node.name} is not an input of the kernel")
            values[node] = change(known[node])
        return values[node]

    with ExitStack() as active:
        active.enter_context(torch.no_grad())
        for device in {"cpu", *(["cuda"] if torch.cuda.is_available() else [])}:
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
            values[node] = _called(node, *fx.map_arg((node.args, node.kwargs), value))
    return values


def _called(node: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return node.target(*_without_writes(node, args), **kwargs)
    except Exception as error:
        text = str(error).strip().partition("\n")[0][:120]
        raise NotComputableError(f"{operator_name(node)} cannot run by itself: {text}") from error


def attribute(module: Any, path: str) -> Any:
    """Return an attribute of a module by its dotted name."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _without_writes(node: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy the arguments that an operation writes to: another node may still need the old value."""
    import torch

    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return args
    written = [each.alias_info is not None and each.alias_info.is_write for each in schema.arguments]
    pairs = zip(args, [*written, *[False] * len(args)], strict=False)
    return tuple(each.clone() if is_written and isinstance(each, torch.Tensor) else each for each, is_written in pairs)


def operator_name(node: Any) -> str:
    """Return a node's operation without its overload, such as `aten.relu`."""
    packet = getattr(node.target, "overloadpacket", node.target)
    return str(packet) if packet is not node.target else getattr(node.target, "__name__", str(node.target))


def cannot_repeat(node: Any) -> str | None:
    """Say why a second run of an operation means nothing; None: it can be repeated."""
    import torch

    is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and not _drops_nothing(node)
    if is_random or "inductor_rand" in str(node.target):
        return f"{operator_name(node)} draws random numbers"
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return f"{node.target.name()} has no definition in PyTorch"
    if str(node.target).startswith(("_c10d_functional", "c10d")):
        return f"{operator_name(node)} communicates with other processes"
    return why_not_again(node) or None if _is_in_program else None


def _drops_nothing(node: Any) -> bool:
    """Whether a call has a probability of dropout that is 0, as attention has in evaluation mode."""
    names = [each.name for each in node.target._schema.arguments]
    if "dropout_p" not in names:
        return False
    at = names.index("dropout_p")
    given = node.args[at] if at < len(node.args) else node.kwargs.get("dropout_p")
    return bool((node.target._schema.arguments[at].default_value if given is None else given) == 0)


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
        is_own = namespace not in _OF_TORCH
    else:
        module = str(getattr(target, "__module__", None) or "torch")  # built-in functions of torch have none
        is_own = module.partition(".")[0] not in _PURE
    return f"{name} is an operator of the program, which is not called a second time" if is_own else ""


@contextmanager
def modes_off() -> Iterator[None]:
    """Let a program not notice what the block runs: its generators, its streams, and its modes of dispatch."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), unnoticed(), torch._C.DisableTorchFunctionSubclass():
        yield
