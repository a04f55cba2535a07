"""Follow a wrapper's `call` line by line, without running it, to find the arguments of each launch.

A value is a tensor, a number, a list of values, or not known; only expressions of numbers are evaluated. The dtype of a
buffer is inferred from the kernels that take it.
"""

import ast
import math
from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.findings.kernels.emitted_code import dotted
from ctrace.reports.dump.kernel_parameters import LaunchParameter, parameters
from ctrace.reports.dump.module import Defined, OutputModule, bound

# Sizes and strides are 64-bit integers; a computed number beyond is damage.
_LARGEST = 2**63


class WrapperTensor(Struct, frozen=True):
    """A tensor in a wrapper, as far as the wrapper's text shows."""

    storage: str
    """The name of the allocation; tensors that share memory have the same one."""
    dtype: str = ""
    """`torch.float32`; empty if not known."""
    shape: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    offset: int = 0
    """In elements."""
    device: str = ""
    zero: bool = False
    """Whether the wrapper fills it with zeros before use."""

    @property
    def is_known(self) -> bool:
        """Whether enough is known to make such a tensor."""
        return bool(self.dtype and self.device) and self.shape is not None and self.stride is not None

    @property
    def extent(self) -> int:
        """Return the number of elements from the start of its memory to its last element."""
        if self.shape is None or self.stride is None:
            return 0
        if 0 in self.shape:
            return self.offset
        return self.offset + 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=False))


Value = WrapperTensor | int | float | bool | list["Value"] | None
"""The value; None if nothing is known about it."""


def number(node: ast.expr, known: Mapping[str, Value]) -> int | float | bool | None:
    """Evaluate a number expression; return None for other expressions, or if a part is not known."""
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.Name(id=name):
            resolved = known.get(name)
            if isinstance(resolved, bool | int | float):
                return resolved
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = number(operand, known)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(number(left, known), op, number(right, known))
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=args) if args:
            found = [each for arg in args if (each := number(arg, known)) is not None]
            if len(found) < len(args):
                return None
            return {"max": max, "min": min}[name](found)
        case ast.Call(func=func, args=[arg]) if ast.unparse(func) in ("math.ceil", "math.floor", "int"):
            inner = number(arg, known)
            if inner is None or not math.isfinite(inner):
                return None
            return {"math.ceil": math.ceil}.get(ast.unparse(func), math.floor)(inner)
    return None


def _combined(
    left: int | float | bool | None, op: ast.operator, right: int | float | bool | None
) -> int | float | bool | None:
    if left is None or right is None or abs(left) > _LARGEST or abs(right) > _LARGEST:
        return None
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv() if right:
            return left // right
        case ast.Div() if right:
            return left / right
        case ast.Mod() if right:
            return left % right
        case ast.Pow() if 0 <= right <= 8:
            return left**right
    return None


def numbers(node: ast.expr, known: Mapping[str, Value]) -> tuple[int, ...] | None:
    """Evaluate a tuple of integers, such as sizes; return None if one of them is not known."""
    if not isinstance(node, ast.Tuple | ast.List):
        return None
    found = [number(each, known) for each in node.elts]
    if all(isinstance(n, int) for n in found):
        return tuple(each for each in found if isinstance(each, int))
    return None


_LIBRARIES = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.", "_quantized.")
# Inductor has an allocator for each kind of device, e.g. `empty_strided_cuda` and `empty_strided_cpu_pinned`.
_ALLOCATE = "empty_strided"


class LaunchSite(Struct, frozen=True):
    """One launch of a kernel in a wrapper, or one call of a library."""

    name: str
    """The kernel's name in the wrapper, or the library function, such as `extern_kernels.addmm`."""
    line: int
    """Line of the launch in the parsed text."""
    call: ast.Call
    arguments: Mapping[str, Value]
    """The value of each name in the call; None if not known."""
    streams: Mapping[str, int]
    """Device index of each stream, by the stream's name."""
    written: tuple[str, ...]
    """The names of the buffers that it writes, as far as known."""
    kernel: Defined | None = None
    """The kernel's definition; None for a library call."""


class Wrapper(Struct, frozen=True):
    """The launches and inputs of a wrapper."""

    sites: tuple[LaunchSite, ...] = ()
    inputs: Mapping[str, Value] = field(default_factory=dict)
    """Inputs of the graph part by name, in order; None for an input that ctrace cannot make."""
    constants: Mapping[str, Value] = field(default_factory=dict)
    """Tensors that the module itself contains."""
    below: Mapping[str, int] = field(default_factory=dict)
    """The exclusive upper bound of the integers in each storage whose integers kernels use as indexes."""


def follow(module: OutputModule, dtypes: Mapping[str, str]) -> Wrapper:
    """Follow the `call` of a module; `dtypes` has the dtypes of buffers that other sources than the wrapper know."""
    walk = _Walk(module, dtypes)
    walk.make_inputs()
    walk.function("call", [walk.inputs.get(name) for name in walk.order])
    return Wrapper(tuple(walk.sites), walk.inputs, walk.constants, walk.below)


class _Walk:
    def __init__(self, module: OutputModule, dtypes: Mapping[str, str]) -> None:
        self._module = module
        self._parameters = {name: parameters(kernel) for name, kernel in module.kernels.items()}
        self._dtypes = {**types_of_buffers(module, self._parameters), **dtypes}
        self._device = "cpu"
        self.sites: list[LaunchSite] = []
        self.inputs: dict[str, Value] = {}
        self.order: list[str] = []
        self.constants: dict[str, Value] = {}
        self.below: dict[str, int] = {}
        self._inside: set[str] = set()
        self._module_names = {name for each in (*module.imports, *module.header) for name in bound(each)}
        self._module_names |= set(module.kernels) | set(module.others)

    def make_inputs(self) -> None:
        """Read the inputs from the function that makes inputs for torch's own benchmark."""
        globals_: set[str] = set()
        for statement in self._module.inputs:
            match statement:
                case ast.Global(names=names):
                    globals_.update(names)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if name in globals_ - {"fn"}:
                        self.constants[name] = self._input(name, value)
                    elif name != "fn":
                        self.inputs[name] = self._input(name, value)
                case ast.Return(value=ast.List(elts=elements)):
                    self.order = [each.id for each in elements if isinstance(each, ast.Name)]
        self.order = self.order or list(self.inputs)

    def _input(self, name: str, value: ast.expr) -> Value:
        match value:
            case ast.Call(func=ast.Name(id="rand_strided"), args=[shape, stride, *_], keywords=keywords):
                dtype = device = ""
                for each in keywords:
                    if each.arg == "dtype":
                        dtype = dotted(each.value)
                    elif each.arg == "device" and isinstance(each.value, ast.Constant):
                        device = str(each.value.value)
                return WrapperTensor(name, dtype, numbers(shape, {}), numbers(stride, {}), device=device)
        return number(value, {})

    def function(self, name: str, arguments: list[Value]) -> Value:
        """Follow a function that takes one list of arguments; return its result."""
        followed = self._module.functions.get(name)
        # A damaged wrapper may call itself.
        if followed is None or name in self._inside:
            return None
        self._inside.add(name)
        scope = _Scope({**self.constants, "args": arguments})
        try:
            return self._block(followed.body, scope)
        finally:
            self._inside.discard(name)

    def _block(self, body: list[ast.stmt], scope: "_Scope") -> Value:
        result: Value = None
        for statement in body:
            match statement:
                case ast.Assign(targets=[target], value=value):
                    self._assign(target, value, statement.lineno, scope)
                case ast.Expr(value=ast.Call() as call):
                    self._call(call, "", statement.lineno, scope)
                case ast.With(items=items, body=inner):
                    self._enter(items)
                    result = self._block(inner, scope) or result
                case ast.Return(value=value) if value is not None:
                    return self._value(value, scope)
                # Which side runs is known only when it runs, and both may launch kernels.
                case ast.If(body=inner, orelse=other):
                    self._block(inner, scope)
                    self._block(other, scope)
        return result

    def _enter(self, items: list[ast.withitem]) -> None:
        for item in items:
            match item.context_expr:
                # e.g. `torch.cuda._DeviceGuard(0)`, whose second part names the kind of device.
                case ast.Call(func=func, args=[ast.Constant(value=int() as index)]) if "DeviceGuard" in dotted(func):
                    kind = "cuda"
                    if dotted(func).count(".") > 1:
                        kind = dotted(func).split(".")[1]
                    self._device = f"{kind}:{index}"

    def _assign(self, target: ast.expr, value: ast.expr, line: int, scope: "_Scope") -> None:
        if isinstance(target, ast.Tuple | ast.List):
            found = self._value(value, scope)
            if not isinstance(found, list):
                # The names are bound again, so what they had before is not their value any more.
                found = [None] * len(target.elts)
            for name, one in zip(target.elts, found, strict=False):
                if isinstance(name, ast.Name):
                    scope.values[name.id] = one
            return
        if not isinstance(target, ast.Name):
            return
        if isinstance(value, ast.Call) and dotted(value.func) == "get_raw_stream" and value.args:
            scope.streams[target.id] = int(number(value.args[0], {}) or 0)
        # A view has the name of a library call, e.g. `aten.view.dtype`, and computes nothing.
        elif isinstance(value, ast.Call) and _is_library(value) and self._view(value, scope) is None:
            self._call(value, target.id, line, scope)
            scope.values[target.id] = WrapperTensor(target.id, self._dtypes.get(target.id, ""), device=self._device)
        else:
            scope.values[target.id] = self._made(target.id, value, scope)

    def _made(self, name: str, value: ast.expr, scope: "_Scope") -> Value:
        """Return the value that a name is assigned: fresh memory, a view or a number."""
        match value:
            case ast.Call(func=ast.Name(id=made), args=[shape, stride, dtype, *_]) if made.startswith(_ALLOCATE):
                return WrapperTensor(
                    name,
                    dotted(dtype),
                    numbers(shape, scope.values),
                    numbers(stride, scope.values),
                    device=self._allocated_on(made.removeprefix(_ALLOCATE).strip("_").removesuffix("_pinned")),
                )
            # One of the results of a library call; `assert_size_stride` says its sizes later.
            case ast.Subscript(value=ast.Name(id=whole)):
                source = scope.values.get(whole)
                if isinstance(source, WrapperTensor):
                    return WrapperTensor(name, self._dtypes.get(name, ""), device=source.device)
                return None
        return self._value(value, scope)

    def _allocated_on(self, kind: str) -> str:
        """Return the device, such as `cuda:1`, on which an allocator such as `empty_strided_cuda` allocates."""
        if kind and self._device.startswith(kind):
            return self._device
        if kind in ("cpu", ""):
            return kind
        return f"{kind}:0"

    def _value(self, value: ast.expr, scope: "_Scope") -> Value:
        match value:
            case ast.Name(id=name) if name in scope.values:
                return scope.values[name]
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [self._value(each, scope) for each in elements]
            # e.g. `runner.partitions[0](args)`: of a graph that CUDA graphs record in parts, each part is a function.
            case ast.Call(func=ast.Subscript(value=ast.Attribute(attr="partitions"), slice=index), args=[passed]):
                arguments = self._value(passed, scope)
                if not isinstance(arguments, list):
                    arguments = []
                return self.function(f"partition_{number(index, {})}", arguments)
            case ast.Call():
                return self._view(value, scope)
        return number(value, scope.values)

    def _view(self, call: ast.Call, scope: "_Scope") -> WrapperTensor | None:
        """Return the view that `reinterpret_tensor(...)` or a similar call makes; None for other calls."""
        match dotted(call.func), call.args:
            case "reinterpret_tensor", [base, shape, stride, offset, *_]:
                # The offset is added to that of the base.
                source, start = self._value(base, scope), number(offset, scope.values)
                sizes, steps = numbers(shape, scope.values), numbers(stride, scope.values)
                if isinstance(source, WrapperTensor) and isinstance(start, int):
                    return replace(source, shape=sizes, stride=steps, offset=source.offset + start)
            case "copy_if_misaligned", [base]:  # 2.13, codegen/wrapper.py: its argument, or a copy
                if isinstance(source := self._value(base, scope), WrapperTensor):
                    return source
                return None
            case "aten.view.dtype" | "torch.ops.aten.view.dtype", [base, dtype]:
                source = self._value(base, scope)
                if isinstance(source, WrapperTensor):
                    return replace(source, dtype=dotted(dtype))
                return None
            case "alloc_from_pool", [ast.Name(id=pool), start, dtype, shape, stride]:
                source = scope.values.get(pool)
                if isinstance(source, WrapperTensor):
                    storage = f"{pool}_{number(start, scope.values)}"
                    sizes, steps = numbers(shape, scope.values), numbers(stride, scope.values)
                    return WrapperTensor(storage, dotted(dtype), sizes, steps, device=source.device)
        return None

    def _call(self, call: ast.Call, result: str, line: int, scope: "_Scope") -> None:
        """Record a call: a size assertion, a fill with zeros, a launch or a library call."""
        name = dotted(call.func)
        if name == "assert_size_stride" and len(call.args) > 2 and isinstance(call.args[0], ast.Name):
            self._set_sizes(call.args[0].id, call.args[1], call.args[2], scope)
        elif name.endswith(".zero_") and name.count(".") == 1:
            buffer = name.removesuffix(".zero_")
            value = scope.values.get(buffer)
            if isinstance(value, WrapperTensor):
                scope.values[buffer] = replace(value, zero=True)
        elif (kernel := self._module.kernels.get(name.removesuffix(".run"))) is not None:
            self._kernel(kernel, call, line, scope)
        elif name.removesuffix(".run") in self._module.others:
            self._site(name.removesuffix(".run"), call, line, (), None, scope)
        elif _is_library(call):
            into = [each.value.id for each in call.keywords if each.arg == "out" and isinstance(each.value, ast.Name)]
            if result:
                into.append(result)
            self._site(name, call, line, tuple(dict.fromkeys(into)), None, scope)

    def _set_sizes(self, name: str, shape: ast.expr, stride: ast.expr, scope: "_Scope") -> None:
        value = scope.values.get(name)
        # Of memory that the wrapper allocates, the allocation has said it.
        if isinstance(value, WrapperTensor) and value.shape is None:
            sizes, steps = numbers(shape, scope.values), numbers(stride, scope.values)
            scope.values[name] = replace(value, shape=sizes, stride=steps)

    def _kernel(self, kernel: Defined, call: ast.Call, line: int, scope: "_Scope") -> None:
        pairs = list(zip(self._parameters[kernel.name], call.args, strict=False))
        for parameter, argument in pairs:
            value = self._value(argument, scope)
            if parameter.below is not None and isinstance(value, WrapperTensor):
                # Several kernels may use one buffer as an index; it has to suit all of them.
                self.below[value.storage] = min(parameter.below, self.below.get(value.storage, parameter.below))
        written = [name for parameter, argument in pairs if parameter.written and (name := base(argument))]
        if not written:  # the source of a user-written kernel does not declare what it writes
            written = [
                name for each in call.args if (name := base(each)) and isinstance(scope.values.get(name), WrapperTensor)
            ]
        self._site(kernel.name, call, line, tuple(dict.fromkeys(written)), kernel, scope)

    def _site(
        self, name: str, call: ast.Call, line: int, written: tuple[str, ...], kernel: Defined | None, scope: "_Scope"
    ) -> None:
        used = dict.fromkeys(node.id for node in ast.walk(call) if isinstance(node, ast.Name))
        streams = {each: scope.streams[each] for each in used if each in scope.streams}
        arguments = {each: scope.values.get(each) for each in used if each not in {*streams, *self._module_names}}
        self.sites.append(LaunchSite(name, line, call, arguments, streams, written, kernel))


class _Scope(Struct):
    """The local variables of one function."""

    values: dict[str, Value]
    streams: dict[str, int] = field(default_factory=dict)


def _is_library(call: ast.Call) -> bool:
    return dotted(call.func).startswith(_LIBRARIES)


def base(argument: ast.expr) -> str:
    """Return the name of an argument's buffer, also for a view of the buffer."""
    match argument:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[ast.Name(id=name), *_]):
            return name
    return ""


def types_of_buffers(module: OutputModule, taken: Mapping[str, tuple[LaunchParameter, ...]]) -> dict[str, str]:
    """Return the dtypes of buffers from the kernels that take them; earlier names of a buffer get the same dtype."""
    found: dict[str, str] = {}
    renamed: list[tuple[str, str]] = []
    for node in _statements(module):
        match node:
            case ast.Call(func=func, args=args):
                for parameter, argument in zip(taken.get(dotted(func).removesuffix(".run"), ()), args, strict=False):
                    if parameter.dtype and isinstance(argument, ast.Name):
                        found.setdefault(argument.id, parameter.dtype)
            case ast.Assign(targets=[ast.Name(id=new)], value=value) if base(value):
                renamed.append((new, base(value)))
    # From the last name back, so that a dtype reaches each earlier one.
    for new, old in reversed(renamed):
        if new in found:
            found.setdefault(old, found[new])
    return found


def _statements(module: OutputModule) -> Iterator[ast.AST]:
    for function in module.functions.values():
        yield from ast.walk(function)
