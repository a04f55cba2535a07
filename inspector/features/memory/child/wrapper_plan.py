"""Read what a compiled graph allocates and frees, in order, from the wrapper that Inductor generates for it.

The wrapper is the truth about a graph's memory: Inductor plans reuse while it writes it (2.13, _inductor/codegen/
wrapper.py, `AllocateLine`, `FreeIfNotReusedLine`, `ReuseLine`), and `call` then consists of few kinds of statements:

    buf0 = empty_strided_cpu((8, s0), (s0, 1), torch.float32)     a buffer is allocated
    cpp_fused_relu_0(primals_1, buf0)                             a kernel runs
    buf1 = extern_kernels.convolution(...)                        an operator of a library allocates its result
    buf2 = buf0; del buf0  # reuse                                a buffer is used again
    buf3 = subgraph_0(subgraph_0_args)                            another function of the wrapper runs
    del primals_1                                                 what nobody else holds is freed
    return (buf2, reinterpret_tensor(buf1, ...), primals_3)

This module carries out these statements on names in place of tensors. Anything else is refused (`PlanError`): then
nothing is claimed about the graph. Buffers of libraries have no size in the text, so the caller says what a name is.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct

_ALLOCATES = "empty_strided"
_VIEWS = ("reinterpret_tensor", "alloc_from_pool", "as_strided")
_IGNORED_CALLS = ("assert_size_stride", "assert_alignment")
_RUNNER = "Runner"


class PlanError(Exception):
    """The wrapper has a statement that is not known."""


class PlannedBuffer(Struct, eq=False):
    """Memory that names of the wrapper refer to."""

    name: str
    bytes: int
    argument: int | None = None
    """The index of the argument that it is."""
    references: int = 0


class Step(Struct, frozen=True):
    """One thing that the wrapper does to memory."""

    buffer: PlannedBuffer
    change: int
    """Bytes allocated; negative: freed; 0: the memory is used again."""
    by: str
    """The kernel or operator that ran last."""
    name: str = ""
    """The name that the memory has from now on."""


class WrapperOutcome(Struct, frozen=True):
    """What a call does, and which buffer each result lies in; None: in none of them."""

    steps: tuple[Step, ...]
    results: tuple[PlannedBuffer | None, ...]


class DescribedBuffer(Struct, frozen=True):
    """What a buffer is that an operator of a library returns."""

    bytes: int | None
    """None: no memory of its own."""
    aliases: tuple[str, ...] = ()
    """The buffers that it lies in instead."""


class WrapperPlan:
    """The statements of a wrapper."""

    def __init__(self, text: str, itemsize: Callable[[str], int]) -> None:
        """Parse a wrapper.

        Args:
            text: the generated module.
            itemsize: returns the size of a dtype such as `float32`.

        Raises:
            PlanError: it has no `call`.
        """
        functions = dict(_functions(ast.parse(text)))
        if "call" not in functions:
            raise PlanError("the wrapper has no function `call`")
        self._functions = functions
        self._itemsize = itemsize

    def carried_out(
        self,
        arguments: Sequence[tuple[int, bool, int] | int | None],
        describe: Callable[[str, Mapping[str, int]], DescribedBuffer | None],
    ) -> WrapperOutcome:
        """Carry out a call.

        Args:
            arguments: the bytes of each tensor, whether nobody else holds it, and the index of the first argument
                that lies in the same memory; a number; or None for anything else.
            describe: says what a name is that an operator returns, given the numbers that are known by now.

        Raises:
            PlanError: a statement is not known.
        """
        run = _Run(self._functions, self._itemsize, describe)
        values: list[Any] = []
        for index, each in enumerate(arguments):
            is_shared = isinstance(each, tuple) and each[2] != index
            values.append(values[each[2]] if is_shared else _argument(index, each))  # type: ignore[index]
        results = run.called("call", values)
        return WrapperOutcome(
            tuple(run.steps), tuple(each if isinstance(each, PlannedBuffer) else None for each in results)
        )


def _argument(index: int, value: tuple[int, bool, int] | int | None) -> Any:
    if isinstance(value, tuple):
        size, is_owned, _ = value
        return PlannedBuffer("", size, index, 0 if is_owned else 1)  # the caller's reference
    return value


def _functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield `call` and the parts that it runs, at the top level (2.11) or in a class (since 2.12)."""
    for each in module.body:
        if isinstance(each, ast.FunctionDef):
            yield each.name, each
        elif isinstance(each, ast.ClassDef) and each.name == _RUNNER:
            for inner in each.body:
                if isinstance(inner, ast.FunctionDef):
                    yield inner.name, inner


class _Opaque:
    """A value that is neither memory nor a number."""


_OPAQUE = _Opaque()


class _Parts:
    """What an operator with several results returns; each gets its memory where it is named."""


class _Run:
    """One call."""

    def __init__(
        self,
        functions: Mapping[str, ast.FunctionDef],
        itemsize: Callable[[str], int],
        describe: Callable[[str, Mapping[str, int]], DescribedBuffer | None],
    ) -> None:
        self._functions = functions
        self._itemsize = itemsize
        self._describe = describe
        self._by = ""
        self.steps: list[Step] = []

    def called(self, name: str, arguments: list[Any], held_by: tuple[dict[str, Any], str] | None = None) -> list[Any]:
        """Carry out a function of the wrapper, and return what it returns.

        Args:
            name: the function.
            arguments: what it gets.
            held_by: the names of the caller, and the one of the list of arguments; None: it has no name.
        """
        names: dict[str, Any] = {}
        self._set(names, self._functions[name].args.args[-1].arg, arguments)
        if held_by is not None:
            self._drop(*held_by)
        result = self._body(self._functions[name].body, names)
        # Held first, so that dropping the names frees only what is not returned.
        kept = list(result or ())
        for each in kept:
            self._hold(each)
        for each in tuple(names):
            self._drop(names, each)
        for each in kept:
            if isinstance(each, PlannedBuffer):
                each.references -= 1  # the caller takes them over: nothing is freed
        return kept

    def _body(self, statements: Sequence[ast.stmt], names: dict[str, Any]) -> Any:
        """Carry out statements; return what they return, None if they go on."""
        for each, following in zip_longest(statements, statements[1:]):
            match each:
                case ast.Return(value=value):
                    return self._tuple(value, names)
                case ast.With(body=body):
                    result = self._body(body, names)
                    if result is not None:
                        return result
                case _:
                    self._statement(each, following, names)
        return None

    def _statement(self, statement: ast.stmt, following: ast.stmt | None, names: dict[str, Any]) -> None:
        match statement:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value, names)
                # Inductor writes `buf2 = buf0; del buf0  # reuse` on one line.
                if isinstance(following, ast.Delete) and following.lineno == statement.lineno:
                    self._used_again(target, names)
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._drop(names, target.id)
            case ast.Expr(value=value):
                self._expression(value, names)
            case ast.If(body=body, orelse=[]) if all(isinstance(each, ast.Raise) for each in body):
                pass  # a check
            case ast.Assert() | ast.Pass() | ast.Global() | ast.Import() | ast.ImportFrom():
                pass
            case _:
                raise PlanError(f"the wrapper has a statement that is not known: {ast.unparse(statement)[:80]}")

    def _tuple(self, value: ast.expr | None, names: dict[str, Any]) -> list[Any]:
        if isinstance(value, ast.Tuple | ast.List):
            return [self._value(each, names) for each in value.elts]
        if value is None:
            return []
        found = self._value(value, names)
        if isinstance(found, list | tuple):
            return list(found)
        return [found]

    def _assign(self, target: ast.expr, value: ast.expr, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Tuple):
            found = self._value(value, names)
            if not isinstance(found, list) or len(found) != len(target.elts):
                raise PlanError(f"the wrapper unpacks what is not known: {ast.unparse(value)[:80]}")
            for each, part in zip(target.elts, found, strict=True):
                if isinstance(each, ast.Name):
                    self._set(names, each.id, part)
            return
        if not isinstance(target, ast.Name):
            return
        self._set(names, target.id, self._value(value, names, target.id))

    def _used_again(self, target: ast.expr, names: dict[str, Any]) -> None:
        """Note that a buffer lies in the memory of another one, which is deleted in the same line."""
        buffer = None
        if isinstance(target, ast.Name):
            buffer = names.get(target.id)
        if isinstance(buffer, PlannedBuffer) and isinstance(target, ast.Name):
            self.steps.append(Step(buffer, 0, self._by, target.id))

    def _expression(self, value: ast.expr, names: dict[str, Any]) -> None:
        """Carry out a call whose result nobody uses."""
        if not isinstance(value, ast.Call):
            return
        name = ast.unparse(value.func)
        # `args.clear()` drops the list's references; the names that it was unpacked to stay.
        if name.endswith(".clear") and isinstance(value.func, ast.Attribute):
            owner = value.func.value
            if isinstance(owner, ast.Name) and isinstance(names.get(owner.id), list):
                self._drop(names, owner.id)
            return
        if name not in _IGNORED_CALLS:
            self._by = name.removesuffix(".run")

    def _value(self, value: ast.expr, names: dict[str, Any], target: str = "") -> Any:
        match value:
            case ast.Name(id=name):
                return names.get(name, _OPAQUE)
            case ast.Constant(value=constant):
                if isinstance(constant, int) and not isinstance(constant, bool):
                    return constant
                return _OPAQUE
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return [self._value(each, names) for each in parts]
            case ast.Subscript(value=owner):
                return self._part(value, self._value(owner, names), target, names)
            case ast.Call():
                return self._call(value, names, target)
            case _:
                return self._number(value, names)

    def _part(self, value: ast.Subscript, owner: Any, target: str, names: dict[str, Any]) -> Any:
        if isinstance(owner, list):
            try:
                return owner[ast.literal_eval(value.slice)]
            except (ValueError, TypeError, IndexError):
                raise PlanError(f"the wrapper takes a part that is not known: {ast.unparse(value)[:80]}") from None
        if isinstance(owner, _Parts):
            return self._made(target, names)
        return _OPAQUE

    def _call(self, value: ast.Call, names: dict[str, Any], target: str) -> Any:
        name = ast.unparse(value.func)
        last = name.rpartition(".")[2]
        if last.startswith(_ALLOCATES):
            return self._allocated(value, names, target)
        if last in _VIEWS:
            # `reinterpret_tensor(buf0, ...)`, but `buf0.as_strided(...)`: the memory is the first argument, or the
            # object.
            if value.args and not name.endswith(".as_strided"):
                of = value.args[0]
            else:
                of = value.func
            if isinstance(of, ast.Attribute):
                owner = of.value
            else:
                owner = of
            return self._value(owner, names)
        # With graph partitions, `call` runs its parts as `self.partitions[0](args)`.
        if isinstance(value.func, ast.Subscript) and ast.unparse(value.func.value) == "self.partitions":
            return self._part_called(f"partition_{ast.unparse(value.func.slice)}", value.args[0], names)
        if last in self._functions and len(value.args) == 1:
            return self._part_called(last, value.args[0], names)
        self._by = name
        return self._made(target, names)

    def _part_called(self, function: str, given: ast.expr, names: dict[str, Any]) -> list[Any]:
        """Carry out a partition, or a graph inside of the graph, such as that of a nested compile region.

        It empties the list that it gets: what nobody else holds is freed inside.
        """
        values = self._tuple(given, names)
        return self.called(function, values, (names, given.id) if isinstance(given, ast.Name) else None)

    def _allocated(self, value: ast.Call, names: dict[str, Any], target: str) -> PlannedBuffer:
        if len(value.args) < 3:
            raise PlanError(f"the wrapper allocates what is not known: {ast.unparse(value)[:80]}")
        size, stride = (self._numbers(each, names) for each in value.args[:2])
        dtype = ast.unparse(value.args[2]).removeprefix("torch.")
        count = 0
        if 0 not in size:
            count = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        return self._new(target, count * self._itemsize(dtype))

    def _made(self, target: str, names: dict[str, Any]) -> Any:
        """Return what an operator of a library returns."""
        described = self._describe(target, {name: each for name, each in names.items() if isinstance(each, int)})
        if described is None:
            return _Parts()
        for each in described.aliases:
            if isinstance(names.get(each), PlannedBuffer):
                return names[each]
        if described.bytes is None:
            return _OPAQUE
        return self._new(target, described.bytes)

    def _new(self, name: str, size: int) -> PlannedBuffer:
        buffer = PlannedBuffer(name, size)
        self.steps.append(Step(buffer, size, self._by, name))
        return buffer

    def _numbers(self, value: ast.expr, names: dict[str, Any]) -> list[int]:
        if not isinstance(value, ast.Tuple | ast.List):
            raise PlanError(f"the wrapper has a size that is not known: {ast.unparse(value)[:80]}")
        found = [self._number(each, names) for each in value.elts]
        if not all(isinstance(each, int) for each in found):
            raise PlanError(f"the wrapper has a size that depends on values: {ast.unparse(value)[:80]}")
        return found

    def _number(self, value: ast.expr, names: dict[str, Any]) -> Any:
        """Compute an expression of numbers."""
        known = {name: each for name, each in names.items() if isinstance(each, int)}
        used = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
        if not used <= {*known, "min", "max"} or not _is_arithmetic(value):
            return _OPAQUE
        code = compile(ast.Expression(value), "<size>", "eval")
        # Only arithmetic on integers is left, see `_is_arithmetic`, and no builtins but two.
        found = eval(code, {"__builtins__": {}, "min": min, "max": max, **known})
        if isinstance(found, int | float):
            return int(found)
        return _OPAQUE

    def _set(self, names: dict[str, Any], name: str, value: Any) -> None:
        self._hold(value)
        # After holding the new value, which may be the old one.
        if name in names:
            self._drop(names, name)
        names[name] = value

    def _hold(self, value: Any) -> None:
        if isinstance(value, PlannedBuffer):
            value.references += 1
        elif isinstance(value, list):
            for each in value:
                self._hold(each)

    def _drop(self, names: dict[str, Any], name: str) -> None:
        if name in names:
            self._release(names.pop(name))

    def _release(self, value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                self._release(each)
        elif isinstance(value, PlannedBuffer):
            value.references -= 1
            if not value.references:
                self.steps.append(Step(value, -value.bytes, self._by))


_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Name, ast.Constant, ast.Load, ast.Add, ast.Sub, ast.Mult, ast.Div,
    ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd, ast.Call, ast.Compare, ast.IfExp, ast.cmpop,
)  # fmt: skip


def _is_arithmetic(value: ast.expr) -> bool:
    """Whether an expression only computes numbers: nothing of a wrapper is called, but `min` and `max`."""
    return all(
        isinstance(each, _ARITHMETIC)
        and (not isinstance(each, ast.Call) or (isinstance(each.func, ast.Name) and each.func.id in ("min", "max")))
        for each in ast.walk(value)
    )
