"""Write the operations that a kernel gets wrong as a program of plain PyTorch, which shows it without ctrace.

The program has the operations as a function, compiles it, and prints how far its result and that of eager are from
float64. Floating-point dtypes in the operations are arguments of the function, so that the same text computes in
float64. The forms are tried from the shortest on: the wrong operation alone or all that the kernel's result needs, on
random inputs or on those that the kernel had, without settings or with those of the run.
"""

import ast
import base64
import math
import operator
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic
from ctrace.inspector.capture.core.node_lines import place_of
from ctrace.inspector.features.accuracy.accuracy_request import Draft
from ctrace.inspector.features.accuracy.child.kernel_judge import StoredBuffer, copied_inputs, copied_value
from ctrace.inspector.features.accuracy.child.node_values import (
    NotComputableError,
    Values,
    attribute,
    computed,
    needed,
    why_not_again,
)
from ctrace.inspector.features.accuracy.child.pieces import PieceFinding
from ctrace.inspector.features.accuracy.child.stage_graphs import DynamoGraph, WrongStage

_MOST_BYTES = 200_000
"""The longest text of real inputs; nobody wants a longer one in an issue."""
# Chosen: so many numbers can be read in an issue; more of them are drawn at random instead.
_FEW = 16
_WRONG = "the compiled result is wrong"
_COMPARISON = """\
compiled, eager = torch.compile({name})(*inputs), {name}(*inputs)
exact = {name}(*(each.double() if each.is_floating_point() else each for each in inputs){wide})


def off(results):
    pairs = [(one.double(), other.double()) for one, other in zip(results, exact, strict=True)]
    return max((one - other).abs().nan_to_num(math.inf, math.inf).max().item() for one, other in pairs)


print(f"off by {{off(compiled):.3g}} from float64, eager by {{off(eager):.3g}}")
least = max(each.double().abs().nan_to_num(0, 0, 0).max().item() for each in exact) * {eps!r}
assert off(compiled) <= 5 * off(eager) + 8 * least, {wrong!r}
"""


_OF_GRADIENTS = """\
def gradients(function, *, wide=False, **dtypes):
    torch.manual_seed(1)
    leaves = [each.double() if wide and each.is_floating_point() else each.clone() for each in inputs]
    leaves = [each.requires_grad_(each.is_floating_point()) for each in leaves]
    results = [each for each in function(*leaves, **dtypes) if each.requires_grad]
    loss = sum((each * torch.randn(each.shape)).sum() for each in results)
    return torch.autograd.grad(loss, [each for each in leaves if each.requires_grad], materialize_grads=True)


compiled, eager = gradients(torch.compile({name})), gradients({name})
exact = gradients({name}, wide=True{wide})
"""
_IN_FORWARD = _COMPARISON.partition("\n\n")[0] + "\n"


class NotWritableError(Exception):
    """An operation or a value has no text as a program; the message says which."""


def settings_of_run() -> tuple[str, ...]:
    """Return the statements that set what differs from Inductor's defaults, as far as they can be written."""
    import torch
    from torch._inductor import config

    found = [each for each in config.codegen_config().splitlines() if _is_plain(each)]
    precision = torch.get_float32_matmul_precision()
    return (*found, *([f"torch.set_float32_matmul_precision({precision!r})"] if precision != "highest" else []))


def _is_plain(statement: str) -> bool:
    """Whether a statement sets a literal, and not an object that exists in this process only."""
    try:
        ast.literal_eval(statement.partition(" = ")[2])
    except (ValueError, SyntaxError):
        return False
    return True


def drafts(stored: StoredBuffer, finding: PieceFinding, settings: Sequence[str]) -> Iterator[Draft]:
    """Yield programs that may show a wrong buffer, the shortest first."""
    whole = needed([stored.node], stored.known)
    pieces = [("all operations of the kernel's result", whole, [stored.node], stored.known)]
    if finding.node is not None and finding.node in whole and len(whole) > 1:
        results = [each for each in whole if each.op == "call_function" and each.target is operator.getitem]
        results = [each for each in results if each.args[0] is finding.node]
        with suppress(NotComputableError):  # then the whole piece is the program
            known = {**stored.known, **computed(*_before(stored, finding.node), WatchedArithmetic(), copied_value)}
            pieces.insert(0, ("the operation alone", [finding.node, *results], results or [finding.node], known))
    for what, nodes, outputs, known in pieces:
        # Random inputs first, because a program with them is shorter and shows more than one bad value.
        for is_real in (False, True):
            for chosen in ((), tuple(settings)) if settings else ((),):
                try:
                    text = _text(stored, nodes, outputs, known, chosen, is_real=is_real)
                except NotWritableError:
                    continue
                inputs = "the kernel's inputs" if is_real else "random inputs"
                yield Draft(text, f"{what}, on {inputs}{', with settings of the run' if chosen else ''}")


def _before(stored: StoredBuffer, node: Any) -> tuple[Any, list[Any], Values]:
    return stored.graph.module, needed(node.all_input_nodes, stored.known), stored.known


def _text(
    stored: StoredBuffer, nodes: list[Any], outputs: list[Any], known: Values, settings: Sequence[str], *, is_real: bool
) -> str:
    inside = set(nodes)
    inputs: dict[Any, Any] = {}
    for node in nodes:
        if node.op == "get_attr":
            inputs[node] = getattr(stored.graph.module, str(node.target))
        for each in node.all_input_nodes:
            if each not in inside:
                inputs[each] = known[each]
    values = {each: value for each, value in inputs.items() if _is_tensor(value)}
    writer = _Writer({each: value for each, value in inputs.items() if each not in values})
    body = [writer.line(each) for each in nodes if each.op == "call_function"]
    body.append(f"return ({', '.join(each.name for each in outputs)},)")
    given = {each.name: value for each, value in values.items()}
    return _program(body, given, tuple(writer.dtypes), _eps(outputs), settings, is_real=is_real)


def _program(
    body: Sequence[str],
    inputs: dict[str, Any],
    dtypes: Sequence[str],
    eps: float,
    settings: Sequence[str],
    *,
    is_real: bool,
    of_gradients: bool = False,
) -> str:
    """Write a function of some inputs, and the comparison of its compiled result with eager and float64.

    Args:
        of_gradients: whether to compare the gradients of its inputs, from random ones of its results.
    """
    name = "operation" if len(body) == _ONE else "operations"
    parameters = ", ".join([*inputs, *(f"{each}=torch.{each}" for each in dtypes)])
    written = [_tensor(each, is_real=is_real) for each in inputs.values()]
    if sum(map(len, written)) > _MOST_BYTES:
        raise NotWritableError("the inputs are too long")
    packs = any("zlib." in each for each in written)
    if packs:
        imports = ["base64", "math", "zlib"]
    else:
        imports = ["math"]
    seed = []
    # Only where it draws, so that the program stays as short as possible.
    if any("rand" in each for each in written):
        seed = ["torch.manual_seed(0)"]
    wide = "".join(f", {each}=torch.float64" for each in dtypes)
    if of_gradients:
        comparison = _COMPARISON.replace(_IN_FORWARD, _OF_GRADIENTS)
    else:
        comparison = _COMPARISON
    set_first = []
    if settings:
        set_first = [*settings, ""]
    apart = []
    if of_gradients:
        apart = ["", ""]
    return "\n".join(
        [
            *(f"import {each}" for each in imports),
            "",
            "import torch",
            "",
            *set_first,
            f"def {name}({parameters}):",
            *(f"    {each}" for each in body),
            "",
            "",
            *seed,
            "inputs = [",
            *(f"    {each}," for each in written),
            "]",
            *apart,
            comparison.format(name=name, wide=wide, eps=max(eps, 2.0**-24), wrong=_WRONG),
        ]
    )


_ONE = 2
"""One operation, and what is returned."""


def stage_drafts(found: DynamoGraph, made: WrongStage, settings: Sequence[str]) -> Iterator[Draft]:
    """Yield programs that may show a wrong stage before the kernels: the operations of its line, then the whole graph.

    They have torch's own decompositions and passes, with settings of the run; those of the user are not in them.
    """
    from torch import fx

    values: Values = {}

    class Keeping(fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            values[n] = copied_value(value)
            return value

    Keeping(found.module).run(*copied_inputs(found.inputs))
    computing = [each for each in found.module.graph.nodes if each.op not in ("placeholder", "output", "get_attr")]
    line = None
    if made.node is not None:
        line = place_of(made.node)[:2]
    of_gradients = made.stage == "backward"
    for what, nodes in (
        ("the operations of the line", [each for each in computing if place_of(each)[:2] == line]),
        ("the whole graph", computing),
    ):
        for is_real in (False, True):
            for chosen in ((), tuple(settings)) if settings else ((),):
                try:
                    text = _stage_text(nodes, values, chosen, is_real=is_real, of_gradients=of_gradients)
                except NotWritableError:
                    continue
                inputs = "the graph's values" if is_real else "random inputs"
                yield Draft(text, f"{what}, on {inputs}{', with settings of the run' if chosen else ''}")


def _stage_text(nodes: list[Any], values: Values, settings: Sequence[str], *, is_real: bool, of_gradients: bool) -> str:
    """Write some nodes of Dynamo's graph as a program.

    Raises:
        NotWritableError: they have no text, or call what only the user's program has.
    """
    from torch import fx

    inside = set(nodes)
    # What the rest of the graph uses is what can be wrong there; results inside the line only lead to it.
    outputs = [each for each in nodes if _is_tensor(values[each]) and not set(each.users) <= inside]
    if not outputs or any(each.op == "call_module" or why_not_again(each) for each in nodes):
        raise NotWritableError("the operations are not PyTorch's")
    graph = fx.Graph()
    made: dict[Any, Any] = {}
    read = dict.fromkeys(one for each in nodes for one in each.all_input_nodes if one not in inside)
    inputs = {each: values[each] for each in read if _is_tensor(values[each])}
    for each in inputs:
        made[each] = graph.placeholder(each.name)
    for node in nodes:
        made[node] = graph.node_copy(node, lambda each: made.get(each, values[each]))
        # The annotations of a graph name types of the user's program, which this one does not import.
        made[node].type = None
    graph.output(tuple(made[each] for each in outputs))
    code = graph.python_code("self")
    text = code.src.partition(":\n")[2]
    for name, value in code.globals.items():
        # FX calls objects of torch by names of its own, which mean nothing outside of its module.
        used = re.compile(rf"\b{name}(?=[(.])")
        if used.search(text):
            text = used.sub(_path(name, value), text)
    # After the semicolon, FX only deletes names that are used no more.
    body = [each.partition(";")[0].strip() for each in text.splitlines() if each.strip()]
    dtypes = [each for each in ("float16", "bfloat16", "float32") if f"torch.{each}" in text]
    for each in dtypes:
        # As arguments, they can be float64 in the other call.
        body = [line.replace(f"torch.{each}", each) for line in body]
    # FX writes the names of infinity and NaN, which plain Python does not know.
    body = [re.sub(r"\b(inf|nan)\b", r"float('\1')", line) for line in body]
    given = {made[each].name: value for each, value in inputs.items()}
    eps = max((_eps_of(values[each]) for each in outputs), default=0.0)
    return _program(body, given, dtypes, eps, settings, is_real=is_real, of_gradients=of_gradients)


def _path(name: str, value: Any) -> str:
    """Return what a program writes for an object of PyTorch that FX calls by a name of its own.

    Raises:
        NotWritableError: it is not one of PyTorch.
    """
    import torch

    if value is torch or name in ("inf", "nan"):
        return name
    path = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    found: Any = None
    with suppress(AttributeError):
        found = attribute(torch, path.removeprefix("torch."))
    # It gives itself a name of another module than the one that programs write.
    if value is torch.device:
        path, found = "torch.device", value
    if found is not value:
        raise NotWritableError(name)
    return path


def _eps_of(value: Any) -> float:
    import torch

    if not value.dtype.is_floating_point:
        return 0.0
    return torch.finfo(value.dtype).eps


def _eps(outputs: list[Any]) -> float:
    import torch

    dtypes = [each.meta["val"].dtype for each in outputs if _is_tensor(each.meta.get("val"))]
    return max((torch.finfo(each).eps for each in dtypes if each.is_floating_point), default=0.0)


class _Writer:
    """Writes nodes as statements."""

    def __init__(self, constants: Values) -> None:
        self._constants = constants
        self.dtypes: dict[str, None] = {}
        """Floating-point dtypes that the statements name."""

    def line(self, node: Any) -> str:
        """Write one node.

        Raises:
            NotWritableError: it has no text.
        """
        import torch

        if node.target is operator.getitem:
            return f"{node.name} = {self._value(node.args[0])}[{self._value(node.args[1])}]"
        if not isinstance(node.target, torch._ops.OpOverload):
            raise NotWritableError(str(node.target))
        words = [self._value(each) for each in node.args]
        words += [f"{name}={self._value(each)}" for name, each in node.kwargs.items()]
        return f"{node.name} = torch.ops.{node.target}({', '.join(words)})"

    def _value(self, value: Any) -> str:
        import torch
        from torch import fx

        if isinstance(value, fx.Node):
            return self._value(self._constants[value]) if value in self._constants else value.name
        if isinstance(value, torch.dtype) and value.is_floating_point:
            name = str(value).removeprefix("torch.")
            self.dtypes[name] = None
            return name
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
            return str(value)
        if isinstance(value, float) and not math.isfinite(value):
            return f"float({str(value)!r})"
        if isinstance(value, torch.SymInt):
            return str(int(value))
        if isinstance(value, list | tuple):
            inner = ", ".join(map(self._value, value))
            comma = "," if len(value) == 1 else ""
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{comma})"
        if value is None or isinstance(value, bool | int | float | str):
            return repr(value)
        raise NotWritableError(type(value).__name__)


def _tensor(value: Any, *, is_real: bool) -> str:
    """Write a tensor as an expression: random numbers of its range, or its own."""
    device = ""
    if value.device.type != "cpu":
        device = f".to({str(value.device)!r})"
    value = value.detach().cpu()
    size = tuple(value.shape)
    if value.is_complex():
        raise NotWritableError("complex numbers")
    flat, shape, again = value, size, ""
    if not value.is_contiguous():  # write its memory, gaps included, and view that with its strides
        last = sum((each - 1) * stride for each, stride in zip(size, value.stride(), strict=True))
        shape = (last + 1 if value.numel() else 0,)
        again = f".as_strided({size}, {tuple(value.stride())})"
        if is_real:
            flat = value.as_strided(shape, (1,))
    if is_real:
        return f"{_real(flat.contiguous(), shape)}{again}{device}"
    return f"{_random(value, shape, is_followed=bool(again or device))}{again}{device}"


def _random(value: Any, shape: tuple[int, ...], *, is_followed: bool) -> str:
    """Write random numbers in the range of a tensor; what follows, such as `.to(...)`, is for all of the expression."""
    import torch

    low, high = (float(value.min()), float(value.max())) if value.numel() else (0.0, 0.0)
    if value.dtype is torch.bool:
        return f"(torch.rand({shape}) > 0.5)"
    if not value.is_floating_point():
        # Whole numbers may be indices: outside of the range of the real ones, the program would raise.
        return f"torch.randint({int(low)}, {int(high) + 1}, {shape}, dtype={value.dtype})"
    cast = "" if value.dtype is torch.float32 else f".to({value.dtype})"
    drawn = f"torch.randn({shape})"
    if low >= 0:  # it is not for NaN
        drawn = f"torch.rand({shape})"
        is_in_range = 0.5 < high <= 1  # rand draws from 0 to 1
        if not is_in_range and 0 < high < math.inf:
            drawn = f"{drawn} * {high:.3g}"
            if cast or is_followed:
                drawn = f"({drawn})"
    return f"{drawn}{cast}"


def _real(value: Any, shape: tuple[int, ...]) -> str:
    import torch

    if not value.numel():
        return f"torch.empty({shape}, dtype={value.dtype})"
    if value.numel() <= _FEW and bool(value.isfinite().all()):
        return f"torch.tensor({value.tolist()}, dtype={value.dtype})"
    # Many values, NaN and infinities are written as bytes: a list of them would be too long, or no Python.
    data = zlib.compress(value.reshape(-1).view(torch.uint8).numpy().tobytes(), 9)
    text = base64.b64encode(data).decode()
    if len(text) > _MOST_BYTES:
        raise NotWritableError("the inputs are too long")
    read = f"bytearray(zlib.decompress(base64.b64decode({text!r})))"
    return f"torch.frombuffer({read}, dtype={value.dtype}).view({shape})"


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
