"""Run a program whose weights and random numbers do not exist: follow sizes, strides and dtypes, compute no value.

A tensor is known or unknown. Unknown are parameters, random numbers, uninitialized memory, and what is computed from
them; these tensors have no storage (`without_storage.py`). Known is what the program computes from its own constants,
such as `torch.arange(8)` or a mask of ones: it is computed for real while it is small, because its value is the same
in every run. So `.item()` of a known tensor answers as always, and only a question about an unknown value stops.

The mode stands below autograd and above the kernels. It ignores compile internals, as the one that counts ops does
(`capture/dynamo/op_counts.py`), so that Dynamo compiles as without it.

Of collectives, nothing is sent, and a result is the tensor that would receive it. A process group, torch's fake one
too, reads the memory of what it sends. Its operators name what they write to first, and return that with a work to
wait for (torch/csrc/distributed/c10d/Ops.cpp, 2.11 to 2.13).

Random numbers of inputs that the model file marks as real, `real = ("tokens",)` or `real = (0,)`, are drawn
(`mark_real`).
"""

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.fake.child.asked_values import AskedValues
from ctrace.inspector.features.fake.child.without_storage import has_no_memory, storageless

_MOST_KNOWN = 1 << 20
"""The largest result that is computed, in bytes: position tables are mostly smaller; weights and long masks, larger."""
_NO_FAKE_KERNEL = "no fake impl registered"
"""What torch says of an operator of `torch.library.custom_op` (2.11 to 2.13, _library/custom_ops.py)."""
_INDEPENDENT = frozenset(("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"))
"""Ops that read no value of their argument."""
_UNWRITTEN = frozenset(("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted"))
"""Ops whose result has no value before something is written to it."""
_TRACING = "torch._subclasses."
"""The package of fake and functional tensors."""
NAMESPACE = "c10d"


class KnownValues:
    """Decides which tensors are known, and what becomes of each op."""

    def __init__(self, asked: AskedValues) -> None:
        import torch
        from torch._subclasses import FakeTensorMode

        self._asked = asked
        self._fake = FakeTensorMode()
        self._overwritten: dict[int, Any] = {}
        """Storages whose values were known until something unknown was written, with a reference that keeps the id."""
        self.keeps_random = False
        """Whether random numbers are drawn, for inputs that the file marks as real."""
        self._plain: dict[type, bool] = {}
        self._torch = torch
        self.mode = _mode(self)

    def is_ordinary(self, tensor: Any) -> bool:
        """Whether a tensor is a strided one on the CPU, of no class that wraps other tensors."""
        return (
            self._has_plain_class(tensor)
            and tensor.device.type == "cpu"
            and tensor.layout is self._torch.strided
            and not self._torch._is_functional_tensor(tensor)
        )

    def _is_wrapper(self, tensor: Any) -> bool:
        """Whether a tensor is of a class that wraps others and is not torch's own for tracing, such as torchao's."""
        return not self._has_plain_class(tensor) and not type(tensor).__module__.startswith(_TRACING)

    def _has_plain_class(self, tensor: Any) -> bool:
        kind = type(tensor)
        plain = self._plain.get(kind)
        if plain is None:
            # Most subclasses, such as Parameter, do no dispatching of their own, and can be treated as tensors.
            plain = kind.__torch_dispatch__ is self._torch._C._disabled_torch_dispatch_impl
            self._plain[kind] = plain
        return plain

    def is_unknown(self, tensor: Any) -> bool:
        """Whether the values of an ordinary tensor do not exist."""
        if has_no_memory(tensor):
            return bool(tensor.numel())
        if not self._overwritten:
            return False
        weak = self._overwritten.get(tensor.untyped_storage()._cdata)
        return weak is not None and not weak.expired()

    def forget(self, tensor: Any) -> None:
        """Note that the values of a tensor's storage no longer exist."""
        from torch.multiprocessing.reductions import StorageWeakRef

        if has_no_memory(tensor):
            return
        storage = tensor.untyped_storage()
        # Storages that are gone: their address may belong to another one by now.
        self._overwritten = {key: weak for key, weak in self._overwritten.items() if not weak.expired()}
        self._overwritten[storage._cdata] = StorageWeakRef(storage)

    def dispatch(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Carry out an op, as far as it needs no unknown value."""
        from torch.utils import _pytree

        tensors = [leaf for leaf in _pytree.tree_leaves((args, kwargs)) if isinstance(leaf, self._torch.Tensor)]
        if any(map(self._is_wrapper, tensors)):
            return NotImplemented  # so torch asks their class, whose own ops then arrive here
        if not isinstance(func, self._torch._ops.OpOverload):
            return self._higher_order(func, args, kwargs, tensors)
        if not all(map(self.is_ordinary, tensors)):
            # A kernel for two devices would read memory that is not there; torch's fake one says what is wrong.
            is_mixed = any(each.device.type == "meta" for each in tensors) and any(map(has_no_memory, tensors))
            if is_mixed:
                return self._without_values(func, args, kwargs)
            return func(*args, **kwargs)
        is_unknown = any(map(self.is_unknown, tensors))
        if is_unknown and func.namespace == NAMESPACE:
            for each in tensors:
                self.forget(each)  # the operators do not say what they write to; what they only read is unknown anyway
            return unsent(func, args)
        return self._ordinary(func, args, kwargs, is_unknown=is_unknown)

    def _ordinary(self, func: Any, args: Any, kwargs: dict[str, Any], *, is_unknown: bool) -> Any:
        """Carry out an op on ordinary tensors, of which one is unknown or none."""
        # While torch compiles, these are fake tensors or constants, which torch's own modes handle.
        if not is_unknown and _is_compiling():
            return func(*args, **kwargs)
        name = func.overloadpacket.__name__
        # A view touches no memory, so it needs no values, and its result shares the storage without memory.
        if _is_view(func):
            if name == "resize_" and is_unknown:
                return _resized(*args)
            return func(*args, **kwargs)
        if name in _UNWRITTEN or (self._is_random(func) and not self.keeps_random):
            return self._without_values(func, args, kwargs)
        if not is_unknown or name in _INDEPENDENT:
            return self._computed(func, args, kwargs)
        # Below this mode, so that each part comes back here and is judged on its own.
        with self.mode:
            parts = func.decompose(*args, **kwargs)
        if parts is NotImplemented:
            return self._without_values(func, args, kwargs)
        return parts

    def _higher_order(self, func: Any, args: Any, kwargs: dict[str, Any], tensors: list[Any]) -> Any:
        """Carry out an operator of operators, such as `torch.cond`: its eager code would read what does not exist."""
        ordinary = [each for each in tensors if self.is_ordinary(each)]
        # The ops inside arrive in `dispatch` one by one, which is enough where every value is known, where tensors have
        # another device (torch's own rules for those then apply), and while torch traces the branches.
        has_special = len(ordinary) < len(tensors)
        reads_unknown = any(map(self.is_unknown, ordinary))
        if has_special or not reads_unknown or _is_compiling():
            return func(*args, **kwargs)
        for each in ordinary:
            self.forget(each)  # no schema says which ones it writes to
        return _Faked(self._fake, func, args, kwargs).real(self)

    def _is_random(self, func: Any) -> bool:
        return self._torch.Tag.nondeterministic_seeded in func.tags

    def _computed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Compute an op that needs no unknown value, unless the result is large."""
        from torch.utils import _pytree

        if _writes(func):
            return func(*args, **kwargs)
        try:
            faked = _Faked(self._fake, func, args, kwargs)
        except Exception:  # the kernel says what is wrong, or how large a result is that depends on known values
            return func(*args, **kwargs)
        results = [leaf for leaf in _pytree.tree_leaves(faked.result) if isinstance(leaf, self._torch.Tensor)]
        if all(leaf.numel() * leaf.element_size() <= _MOST_KNOWN for leaf in results):
            return func(*args, **kwargs)
        return faked.real(self)

    def _without_values(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return what an op returns, without values.

        Raises:
            CallStoppedError: that depends on values, or nothing says what the op returns.
        """
        from torch._subclasses.fake_tensor import (
            DataDependentOutputException,
            DynamicOutputShapeException,
            UnsupportedOperatorException,
        )

        try:
            faked = _Faked(self._fake, func, args, kwargs)
        except DataDependentOutputException:
            return self._asked.value(func, args)
        except DynamicOutputShapeException:
            return self._of_size(func, args, kwargs, self._asked.size(func))
        except UnsupportedOperatorException:
            raise self._asked.without_fake_kernel(func) from None
        except RuntimeError as error:
            if _NO_FAKE_KERNEL not in str(error):
                raise
            raise self._asked.without_fake_kernel(func) from None
        return faked.real(self)

    def _of_size(self, func: Any, args: Any, kwargs: dict[str, Any], size: int) -> Any:
        """Return what an op returns whose size depends on values, for an assumed size."""
        return _Faked(_symbolic_mode(), func, args, kwargs).real(self, size)


def _symbolic_mode() -> Any:
    """Return a mode in which a size that depends on values is a symbol."""
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return FakeTensorMode(shape_env=ShapeEnv(allow_dynamic_output_shape_ops=True, allow_scalar_outputs=True))


def found_size(func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> int | None:
    """Return the size of an op's result that depends on values; None: all sizes follow from those of its arguments."""
    import torch
    from torch.utils import _pytree

    faked = _Faked(_symbolic_mode(), func, args, kwargs).result
    for fake, real in zip(_pytree.tree_leaves(faked), _pytree.tree_leaves(result), strict=True):
        if not isinstance(fake, torch.Tensor):
            continue
        for symbol, size in zip(fake.size(), real.size(), strict=True):
            if isinstance(symbol, torch.SymInt):
                return int(size)
    return None


class _Faked:
    """An op's results as fake tensors, made from fake arguments."""

    def __init__(self, mode: Any, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        import torch
        from torch.utils import _pytree

        self._torch, self._pytree, self._func = torch, _pytree, func
        self._originals: dict[int, tuple[Any, Any]] = {}
        """The argument of each fake one, by id, with the fake one, which keeps its id."""
        fakes: dict[int, Any] = {}

        def fake(tensor: Any) -> Any:
            # A tensor given twice must be one fake tensor: an op may compare or alias its arguments.
            if id(tensor) not in fakes:
                made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
                fakes[id(tensor)] = made
                self._originals[id(made)] = tensor, made
            return fakes[id(tensor)]

        with mode:
            faked = _pytree.tree_map_only(torch.Tensor, fake, (args, kwargs))
            self.result = func(*faked[0], **faked[1])
        self._written = [
            value
            for argument, value in _arguments(func, args, kwargs)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]

    def real(self, values: KnownValues, size: int = 0) -> Any:
        """Return the results as tensors of the program: arguments, or tensors without storage.

        `size` replaces sizes that depend on values.
        """
        for tensor in self._pytree.tree_leaves(self._written):
            if isinstance(tensor, self._torch.Tensor):
                values.forget(tensor)
        return self._pytree.tree_map_only(self._torch.Tensor, lambda leaf: self._one(leaf, size), self.result)

    def _one(self, fake: Any, size: int) -> Any:
        if id(fake) in self._originals:
            original, _ = self._originals[id(fake)]
            if fake.size() != original.size():  # `out=` of another size
                _resized(original, fake.size())
            return original
        sizes, strides = _numbers(fake.size(), size), _numbers(fake.stride(), size)
        if fake.device.type != "cpu":
            return self._torch.empty_strided(sizes, strides, dtype=fake.dtype, device=fake.device)
        return storageless(sizes, strides, fake.dtype)


def _arguments(func: Any, args: Any, kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return an op's arguments with what its schema says of each; an operator of operators has none."""
    if not hasattr(func, "_schema"):
        return []
    declared = func._schema.arguments
    named = {each.name: each for each in declared}
    return [
        *zip(declared, args, strict=False),
        *((named[name], value) for name, value in kwargs.items() if name in named),
    ]


def _numbers(symbols: Any, size: int) -> list[int]:
    """Replace symbols that depend on values by a number."""
    import torch

    def number(each: Any) -> int:
        if isinstance(each, torch.SymInt):
            expression = each.node.expr
            # The sizes may be terms of it, such as twice as many elements: all of its symbols get the one size.
            return int(expression.subs(dict.fromkeys(expression.free_symbols, size)))
        return int(each)

    return list(map(number, symbols))


def _resized(tensor: Any, size: Any, **_kwargs: Any) -> Any:
    """Resize a tensor without storage."""
    stride, step = [], 1
    for length in reversed(size):
        stride.append(step)
        step *= max(length, 1)
    other = storageless(size, stride[::-1], tensor.dtype)
    return tensor.set_(other.untyped_storage(), 0, tuple(size), tuple(stride[::-1]))


def _is_view(func: Any) -> bool:
    """Whether an op only changes how a storage is looked at, so that its kernel touches no memory."""
    import torch

    if torch.Tag.inplace_view in func.tags:
        return True
    aliases = [each.alias_info for each in func._schema.returns if each.alias_info is not None]
    # Such an op only calls others, which arrive on their own; it may copy, as reshape does.
    is_composite = func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    return bool(aliases) and not any(each.is_write for each in aliases) and not is_composite


def _writes(func: Any) -> bool:
    return bool(func._schema.is_mutable)


def _is_compiling() -> bool:
    from torch._guards import CompileContext

    return CompileContext.current_compile_id() is not None


def _is_in_fake_mode() -> bool:
    import torch

    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def _mode(values: KnownValues) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class _Storageless(TorchDispatchMode):
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if _is_in_fake_mode():  # such as DTensor's, which asks for a shape: torch's own modes come after this one
                return func(*args, **(kwargs or {}))
            return values.dispatch(func, args, kwargs or {})

    return _Storageless()


def unsent(func: Any, args: Any) -> Any:
    """Return what an operator of `NAMESPACE` returns, as if it were done."""
    from torch._C._distributed_c10d import FakeWork

    # A Work that is complete at once, since nothing is sent.
    results = [FakeWork().boxed() if "Work" in str(each.type) else args[0] for each in func._schema.returns]
    if len(results) == 1:
        return results[0]
    return tuple(results)


_NAME = "real"


def mark_real(module: ModuleType, values: KnownValues) -> None:
    """Let the file's `inputs` keep the values of the arguments that its `real` names, by position or by keyword.

    Raises:
        TargetError: the file makes its inputs before anybody can read `real`, or `real` is something else.
    """
    marked = getattr(module, _NAME, None)
    if marked is None or not hasattr(module, "inputs"):
        return
    if not isinstance(marked, tuple | list) or not all(isinstance(each, int | str) for each in marked):
        raise TargetError(
            f"real has type {type(marked).__name__}", 'name inputs: real = ("tokens",), or by position: (0,)'
        )
    if not callable(module.inputs):
        raise TargetError(
            "real names inputs that were made before it was read", "make them in def inputs(): return ..."
        )
    module.inputs = _keeping(module.inputs, marked, values)  # type: ignore[attr-defined]


def _keeping(inputs: Callable[[], Any], marked: Any, values: KnownValues) -> Callable[[], Any]:
    def made() -> Any:
        values.keeps_random = True
        try:
            found = inputs()
        finally:
            values.keeps_random = False
        # What the file draws stands for any data, so its values are forgotten, except in the inputs marked as real.
        _forget(found, marked, values)
        return found

    return made


def _forget(found: Any, marked: Any, values: KnownValues) -> None:
    """Forget the values of all inputs that are not marked."""
    import torch
    from torch.utils import _pytree

    named: Iterable[tuple[Any, Any]] = [(0, found)]
    if isinstance(found, Mapping):
        named = found.items()
    elif isinstance(found, tuple | list):
        named = enumerate(found)
    for name, value in named:
        if name not in marked:
            for leaf in _pytree.tree_leaves(value):
                if isinstance(leaf, torch.Tensor):
                    values.forget(leaf)
