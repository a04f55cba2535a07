"""Call a model in eager in float64: the reference for compiled and eager results."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ctrace.inspector.capture.calls.call_tensors import mapped, tensors, with_memory
from ctrace.inspector.capture.calls.overlapping_tensors import copied_together, overlapping
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic, aliases, is_plain, mode, operation
from ctrace.inspector.capture.comparing.precision import precision_of


class NoReferenceError(Exception):
    """The call is impossible in float64; the message says why."""


class Float64(WatchedArithmetic):
    """Computes all floating-point numbers in float64, even if the model, a cast or autocast chooses another dtype."""

    is_other = True

    def model(self, model: Any) -> Any:
        """Widen the parameters and buffers of a copy."""
        import torch

        if isinstance(model, torch.nn.Module):
            # Not `double()`, which leaves complex parameters as they are.
            return model._apply(_widened)
        return model

    def call(self, call: Call) -> Call:
        """Widen copies of the arguments; those that overlap still do.

        Raises:
            NoReferenceError: some of several dtypes overlap.
        """
        import torch

        made: dict[int, Any] = {}
        leaves = tensors(call)
        for places in overlapping(leaves):
            group = [leaves[at] for at in places]
            try:
                copies = widened_together(group)
            except NoReferenceError as error:
                self.refused = str(error)
                raise
            for one, copy in zip(group, copies, strict=True):
                made[id(one)] = copy.requires_grad_(one.requires_grad)

        def widened(tensor: Any) -> Any:
            # By identity: an argument that is passed twice is one tensor in float64, too.
            if id(tensor) not in made and precision_of(tensor.dtype):
                if tensor.is_complex():
                    wide = torch.complex128
                else:
                    wide = torch.float64
                if is_plain(tensor):
                    copy = with_memory(tensor, wide)
                else:
                    copy = _widened(tensor).detach()
                made[id(tensor)] = copy.requires_grad_(tensor.requires_grad)
            if precision_of(tensor.dtype):
                return made[id(tensor)]
            return tensor

        return mapped(call, widened)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        try:
            result = self._in_float64(func, args, kwargs)
        except NoReferenceError as error:
            self.refused = str(error)
            raise
        self._look(func, kwargs, result)
        return result

    def _in_float64(self, func: Any, args: Any, kwargs: Any) -> Any:
        import torch
        from torch.utils import _pytree

        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        # In inference mode, composite operations arrive undecomposed. Python's decompositions are no reference: eager
        # does not use them, and compiled code does, with their errors (2.13, _ops.py: `decompose` prefers them).
        composite = torch._C.DispatchKey.CompositeImplicitAutograd
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), composite):
            with mode(self._run):
                return func._op_dk(composite, *args, **kwargs)
        # Before the arguments are changed: a quantized value has no float64 form.
        _refuse(func, args, kwargs)
        # An op that writes into a narrow tensor of the model, such as a cache, has to fit its dtype.
        change = _narrowing(func, args, kwargs) or _wide_values
        args, kwargs = _arguments(func, args, kwargs, change)
        result = func(*args, **kwargs)
        # A view has to stay one, or what is written to it is lost.
        if aliases(func):
            return result
        return _pytree.tree_map_only(torch.Tensor, _widened, result)


def widened_together(tensors: Sequence[Any]) -> list[Any]:
    """Copy overlapping tensors, floating-point numbers in float64.

    Raises:
        NoReferenceError: they have several dtypes, so that float64 would not overlap as they do.
    """
    import torch

    dtypes = {each.dtype for each in tensors}
    if all(precision_of(each) is None for each in dtypes):
        return copied_together(tensors)
    if len(dtypes) > 1:
        raise NoReferenceError("arguments of several dtypes share memory")
    return copied_together(tensors, torch.complex128 if tensors[0].is_complex() else torch.float64)


def _widened(tensor: Any) -> Any:
    import torch

    if precision_of(tensor.dtype) is None or not is_plain(tensor):
        return tensor
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _wide_values(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return _widened(value)
    if isinstance(value, torch.dtype) and precision_of(value) is not None:
        if value.is_complex:
            return torch.complex128
        return torch.float64
    return value


def _narrowing(func: Any, args: Any, kwargs: Any) -> Callable[[Any], Any] | None:
    """Return a function that casts arguments to the dtype of a written tensor, or None if all of those are float64."""
    import torch

    written = [
        value
        for argument, value in _named(func, args, kwargs)
        if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, torch.Tensor)
    ]
    narrow = [each.dtype for each in written if each.is_floating_point() and each.dtype is not torch.float64]
    if not narrow:
        return None

    def fitted(value: Any) -> Any:
        fits = isinstance(value, torch.Tensor) and value.is_floating_point() and is_plain(value)
        if fits:
            return value.to(narrow[0])
        return value

    return fitted


def _named(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """Pair the arguments of a call with the arguments of the operation's schema."""
    arguments = func._schema.arguments
    yield from zip(arguments, args, strict=False)
    yield from ((argument, kwargs[argument.name]) for argument in arguments if argument.name in kwargs)


def _arguments(func: Any, args: Any, kwargs: Any, change: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the arguments, changed unless the operation writes into them or returns an alias of them."""
    from torch.utils import _pytree

    kept = {argument.name for argument in func._schema.arguments if argument.alias_info is not None}

    def changed(name: str, value: Any) -> Any:
        if name in kept:
            return value
        return _pytree.tree_map(change, value)

    names = [argument.name for argument in func._schema.arguments]
    positional = tuple(changed(name, value) for name, value in zip(names, args, strict=False))
    return positional, {name: changed(name, value) for name, value in kwargs.items()}


def _refuse(func: Any, args: Any, kwargs: Any) -> None:
    """Refuse an operation that has another meaning in float64.

    Raises:
        NoReferenceError: the operation quantizes, or reads the bits of a floating-point number.
    """
    import torch
    from torch.utils import _pytree

    for value in _pytree.tree_leaves((args, kwargs)):
        dtype = value  # a dtype may be an argument, too
        if isinstance(value, torch.Tensor):
            dtype = value.dtype
        if isinstance(dtype, torch.dtype) and _is_quantized(dtype):
            raise NoReferenceError(f"the call quantizes ({operation(func)} of {str(dtype).removeprefix('torch.')})")
    if str(func) == "aten.view.dtype" and args[0].is_floating_point():
        raise NoReferenceError("the call reads the bits of floating-point numbers")


def _is_quantized(dtype: Any) -> bool:
    name = str(dtype).removeprefix("torch.")
    return name.startswith(("float8", "float4", "quint", "qint", "bits"))
