"""Change the arithmetic of an eager call: record it, compute in float64, round at random, fill uninitialized memory.

Each variant is a dispatch mode below autograd, so it also sees the operations of the backward pass, and the dtypes
that autocast or the model's own casts choose.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ctrace.inspector.capture.calls.call_tensors import mapped
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.comparing.precision import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    Precision,
    coarser,
    matmul_roundoff,
    precision_of,
)
from ctrace.inspector.capture.comparing.sources import SourceKind, Sources
from ctrace.inspector.capture.core.patch import patched


class WatchedArithmetic:
    """The model's own arithmetic, with a record of what the call computes."""

    is_other = False
    """Whether the arithmetic is not the model's own; an exception is then not the model's fault."""

    def __init__(self, sources: Sources | None = None) -> None:
        self.sources = sources
        """Collects what the call reads that another call may read differently."""
        self.coarsest: Precision | None = None
        """The bounds of the dtype that rounds most; None if nothing was computed in floating point."""
        self.generators = False
        """Whether an operation drew from a generator that the program created."""
        self.read: list[bool | int] = []
        """Booleans and integers that Python read from tensors; they decide the path through the code."""
        self.refused = ""
        """Why a float64 reference is impossible."""

    def model(self, model: Any) -> Any:
        """Change a copy of the model."""
        return model

    def call(self, call: Call) -> Call:
        """Change copies of the arguments."""
        return call

    @contextmanager
    def active(self) -> Iterator[None]:
        """Use this arithmetic in the block."""
        with mode(self._run), nullcontext() if self.sources is None else self.sources.watching():
            yield

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        self._look(func, kwargs, result)
        if self.sources is not None and _is_random(func):
            self.sources.add_operation(SourceKind.RANDOM, f"torch.{operation(func)}")
        if self.sources is not None and operation(func) in _UNINITIALIZED:
            self.sources.add_operation(SourceKind.SEEN, f"torch.{operation(func)}")
        return result

    def _look(self, func: Any, kwargs: Any, result: Any) -> None:
        from torch.utils import _pytree

        for leaf in _pytree.tree_leaves(result):
            precision = None
            if hasattr(leaf, "dtype"):
                precision = precision_of(leaf.dtype)
            if precision is not None:
                self._computed(func, leaf, precision)
        self.generators |= kwargs.get("generator") is not None
        # `.item()` and `if tensor:` both end in this op.
        if operation(func) == "_local_scalar_dense" and isinstance(result, bool | int):
            self.read.append(result)

    def _computed(self, func: Any, result: Any, precision: Precision) -> None:
        # With TF32 or bfloat16 factors, a float32 matmul rounds as coarsely as these dtypes.
        if factors := _factors(func, result):
            if factors >= BFLOAT16.roundoff:
                precision = BFLOAT16
            else:
                precision = FLOAT16
        self.coarsest = coarser(precision, self.coarsest or precision)


class AsIfCompiled(WatchedArithmetic):
    """The model's own arithmetic, while torch says that the code is being compiled."""

    is_other = True

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let the functions that tell say so (2.11 to 2.13, torch/compiler/__init__.py)."""
        import torch

        # The code of the function, since the program may have imported it by name.
        yes: Any = (lambda: True).__code__
        function = torch.compiler.is_dynamo_compiling
        with patched(torch.compiler, "_is_compiling_flag", True), patched(function, "__code__", yes):
            yield


class Filled(WatchedArithmetic):
    """The model's own arithmetic, with certain bytes in memory that is not initialized."""

    is_other = True

    def __init__(self, sources: Sources) -> None:
        super().__init__()
        self._sources = sources

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        import torch

        # `resize_` keeps what was there; only the memory behind it is not initialized.
        before = 0
        if operation(func) == "resize_":
            before = args[0].untyped_storage().nbytes()
        result = func(*args, **kwargs)
        if operation(func) in _UNINITIALIZED and isinstance(result, torch.Tensor) and is_plain(result):
            self._sources.add_operation(SourceKind.SEEN, f"torch.{operation(func)}")
            memory = torch.empty(0, dtype=torch.uint8, device=result.device).set_(result.untyped_storage())
            # A bool has the bytes 0 and 1 only; any other is no value of it.
            memory[before:].fill_(1 if result.dtype is torch.bool else _FILLING)
        return result


class Noisy(WatchedArithmetic):
    """The model's own arithmetic, with one more rounding of each result, up or down at random."""

    is_other = True

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._generators: dict[str, Any] = {}

    def model(self, model: Any) -> Any:
        """Round the parameters of a copy at random."""
        import torch

        if isinstance(model, torch.nn.Module):
            with torch.no_grad():
                for parameter in model.parameters():
                    self._round(parameter)
        return model

    def call(self, call: Call) -> Call:
        """Round copies of the arguments at random."""
        import torch

        def rounded(tensor: Any) -> Any:
            with torch.no_grad():
                self._round(tensor)
            return tensor

        return mapped(call, rounded)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        import torch
        from torch.utils import _pytree

        result = func(*args, **kwargs)
        self._look(func, kwargs, result)
        if _computes(func):
            terms = _terms(func, args, result)
            for leaf in _pytree.tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self._round(leaf, terms, _factors(func, leaf))
        return result

    def _round(self, tensor: Any, terms: float = 1.0, factors: float = 0.0) -> None:
        """Round a tensor in place; round more for sums of many `terms` and for products of rounded `factors`."""
        import torch

        precision = precision_of(tensor.dtype)
        if precision is None or tensor.is_complex() or not is_plain(tensor) or not _is_writable(tensor):
            return
        # Errors of a sum of n terms grow like the root of n; sums of half precision mostly accumulate in float32.
        by = precision.roundoff + min(precision.roundoff, FLOAT32.roundoff) * terms**0.5 / 2
        values = tensor.double()
        generator = self._generator(tensor.device)
        # A generator of our own: the model's draws must not depend on ours.
        noise = 2 * torch.rand((2, *values.shape), generator=generator, dtype=values.dtype, device=values.device) - 1
        moved = values * (1 + by * noise[0])
        if factors and values.numel():
            # Factors that were rounded move all results alike, so by a typical result and not by the value itself.
            moved += 2 * factors * values.square().mean().sqrt() * noise[1]
        # Small integers are usually exact: flags, counts, masks.
        exact = (values == values.round()) & (values.abs() <= 16)
        tensor.copy_(torch.where(exact | ~values.isfinite(), values, moved))

    def _generator(self, device: Any) -> Any:
        import torch

        if str(device) not in self._generators:
            self._generators[str(device)] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[str(device)]


def mode(run: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a dispatch mode that calls `run` with each operation and its arguments."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class _Mode(TorchDispatchMode):
        # Without this, torch refuses higher-order operators, such as `torch.cond`, under the mode (2.13,
        # utils/_python_dispatch.py).
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return run(func, args, kwargs or {})

    return _Mode()


def is_plain(tensor: Any) -> bool:
    """Whether a tensor consists of plain values in memory, and is not a subclass with another meaning."""
    import torch

    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided and not tensor.is_meta


def _is_writable(tensor: Any) -> bool:
    """Whether a tensor can change in place: its values share no memory; an inference tensor needs inference mode."""
    import torch

    expanded = any(not stride and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))
    return not expanded and (not tensor.is_inference() or torch.is_inference_mode_enabled())


def aliases(func: Any) -> bool:
    """Whether a result shares memory with an argument."""
    return any(each.alias_info is not None for each in func._schema.returns)


def operation(func: Any) -> str:
    """Return an operation's name without its namespace and overload, such as `mm`."""
    return str(getattr(func, "__name__", func)).partition(".")[0]


_FILLING = 0x3F
"""A byte that makes ordinary numbers in each floating dtype, such as 0.747 in float32."""
_UNINITIALIZED = frozenset(
    ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted", "resize_")
)


def _is_random(func: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())


_PRODUCTS = ("mm", "conv", "linear", "attention", "lstm", "gru", "rnn", "addmv", "dot", "mv")


def _factors(func: Any, result: Any) -> float:
    """Return the relative error to which an operation on float32 may round its factors."""
    import torch

    if result.dtype is not torch.float32 or not any(part in operation(func) for part in _PRODUCTS):
        return 0.0
    return matmul_roundoff(result.device.type)


_MOVES = frozenset((
    "clone", "copy", "_to_copy", "cat", "stack", "index", "gather", "index_select", "embedding", "where",
    "masked_fill", "constant_pad_nd", "roll", "flip", "repeat", "scatter", "max", "min", "amax", "amin", "sort",
    "topk", "relu", "abs", "neg", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "sign", "floor", "ceil",
    "round", "trunc", "zeros", "ones", "full", "empty", "arange", "zeros_like", "ones_like", "full_like",
    "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "tril", "triu", "scalar_tensor",
    "threshold_backward", "max_pool2d_with_indices", "nonzero", "masked_select", "lift_fresh", "fill",
))  # fmt: skip
"""Operations that only copy values of their arguments, or are exact."""


def _computes(func: Any) -> bool:
    """Whether an operation computes new values, and so rounds them."""
    schema = getattr(func, "_schema", None)
    if schema is None or operation(func) in _MOVES:
        return False
    return not schema.is_mutable and not aliases(func)


def _terms(func: Any, args: Any, result: Any) -> float:
    """Estimate the number of terms in the largest sum of an operation from the sizes of its inputs and outputs."""
    import torch
    from torch.utils import _pytree

    into = sorted((each.numel() for each in _pytree.tree_leaves(args) if isinstance(each, torch.Tensor)), reverse=True)
    results = [each for each in _pytree.tree_leaves(result) if isinstance(each, torch.Tensor) and each.numel()]
    out = max((each.numel() for each in results), default=0)
    if not out or not into:
        return 1.0
    # The result of a running sum is as large as its input, so that the sizes below would say one term.
    if "cum" in operation(func):
        return float(max(results[0].shape, default=1))
    is_product = len(into) > 1 and any(part in operation(func) for part in _PRODUCTS)
    product = 0.0
    if is_product:
        # (m*k) * (k*n) / (m*n) is the square of k, the number of terms.
        product = (into[0] * into[1] / out) ** 0.5
    return max(1.0, into[0] / out, product)
