"""Let `torch.autocast("cuda")` cast tensors that are on the CPU in place of a GPU, by the rules of CUDA.

Autocast looks at the device of each tensor, and has a list of ops for each device: on CUDA `softmax` and `layer_norm`
run in float32, on the CPU they keep the dtype (2.11 to 2.13, aten/src/ATen/autocast_mode.cpp). A program that takes a
GPU says "cuda", so that nothing would be cast where its tensors are on the CPU: its graphs would have other dtypes.

So entering autocast for CUDA enters the CPU's, too, with the same dtype. Ops for which the two lists differ get kernels
that follow CUDA's list, from torch's own header (include/ATen/autocast_mode.h). Outside of autocast for CUDA they call
what was there. Ops that both lists cast alike keep torch's kernels.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.core.patch import patched

CUDA = "cuda"
_KEY = "AutocastCPU"
_LISTS = {
    "LOWER_PRECISION_FP": "lower",
    "FP32": "single",
    "FP32_SET_OPT_DTYPE": "single_by_dtype",
    "DIFFERENT_REDISPATCH_SIGNATURE": "single_norm",
    "PROMOTE": "widest",
}
"""Torch's macros that list ops (autocast_mode.h, 2.11 to 2.13), and what autocast does with their arguments."""
_MACRO = re.compile(r"#define AT_FORALL_(\w+)\(_\)((?:[^\n]*\\\n)*[^\n]*)")
_ENTRY = re.compile(r"_\((\w+)(?:,\s*(\w+))?\)")
_BY_SCHEMA = re.compile(r'"([\w.]+)"')
_BANNED = "binary_cross_entropy"
_UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: "
    "use binary_cross_entropy_with_logits"
)


_WITH_DTYPE: dict[str, Callable[[], Any]] = {
    "aten.norm.Scalar": lambda: _aten("norm.ScalarOpt_dtype"),
    "aten.norm.ScalarOpt_dim": lambda: _aten("norm.ScalarOpt_dim_dtype"),
}
"""The overloads that autocast calls in place of those that take no dtype (autocast_mode.h)."""


def _aten(name: str) -> Any:
    """Return an op by its name with its overload; None: this build of torch lacks it."""
    import torch

    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def rules() -> dict[str, str]:
    """Return what autocast for CUDA does with the arguments of each op, by the op's name with its overload.

    Raises:
        OSError: this torch has no header that says it.
    """
    import torch

    text = (Path(torch.__file__).parent / "include/ATen/autocast_mode.h").read_text(encoding="utf-8")
    # It is in no list of the header: C++ registers a function for it that raises.
    found = {_BANNED: "refused"}
    for name, body in _MACRO.findall(text):
        if name not in _LISTS:
            continue
        entries = [".".join(filter(None, pair)) for pair in _ENTRY.findall(body)]
        # One list has its ops as texts of schemas, the others as names and overloads.
        for op in _BY_SCHEMA.findall(body) or entries:
            found[op] = _LISTS[name]
    return found


@contextmanager
def cast_as_cuda() -> Iterator[None]:
    """Let autocast for CUDA cast tensors on the CPU in the block."""
    from torch.amp.autocast_mode import autocast

    with ExitStack() as stack:
        library = _kernels()
        # Torch has no public way to take back a kernel of an op.
        stack.callback(library._destroy)
        stack.enter_context(patched(autocast, "__enter__", _entering(autocast.__enter__)))
        stack.enter_context(patched(autocast, "__exit__", _leaving(autocast.__exit__)))
        yield


def _entering(original: Callable[..., Any]) -> Callable[..., Any]:
    def enter(self: Any) -> Any:
        import torch

        entered = original(self)
        if self.device == CUDA:
            # On the object, because blocks of autocast nest, and each restores what it found.
            self._ctrace_before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
            torch.set_autocast_enabled("cpu", self._enabled)
            torch.set_autocast_dtype("cpu", self.fast_dtype)
        return entered

    return enter


def _leaving(original: Callable[..., Any]) -> Callable[..., Any]:
    def leave(self: Any, *error: Any) -> Any:
        import torch

        if self.device == CUDA and hasattr(self, "_ctrace_before"):
            enabled, dtype = self._ctrace_before
            torch.set_autocast_enabled("cpu", enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return original(self, *error)

    return leave


def _kernels() -> Any:
    """Register kernels for the ops that autocast for CUDA treats in another way than that for the CPU."""
    import torch

    library = torch.library.Library("aten", "IMPL")
    registered: Any = torch._C._dispatch_get_registrations_for_dispatch_key
    # The ops of both lists: what only CUDA casts needs a kernel, and what only the CPU casts must not be cast.
    names = {name.removeprefix("aten::") for name in (*registered(_KEY), *registered("AutocastCUDA"))}
    of_cpu = {name.removeprefix("aten::") for name in registered(_KEY)}
    known = rules()
    for name in sorted(names):
        # Without a rule of CUDA's, autocast leaves the op alone there, though the CPU's list may cast it.
        rule = known.get(name, "kept")
        if rule in ("lower", "single") and name in of_cpu:
            continue  # both lists cast it alike
        op = _aten(name)
        if op is None:
            continue
        before = None
        if name in of_cpu:
            # Before it is replaced: outside of autocast for CUDA, this one still runs.
            before = torch.library.get_kernel(op, _KEY)
        with warnings.catch_warnings():  # torch warns that there was another kernel
            warnings.simplefilter("ignore")
            library.impl(name, _Kernel(op, rule, before), _KEY, with_keyset=True, allow_override=True)
    return library


_Cast = Callable[[Sequence[Any], dict[str, Any]], tuple[Any, Any]]


class _Kernel:
    """The kernel of one op under autocast."""

    def __init__(self, op: Any, rule: str, before: Any) -> None:
        import torch

        self._op = op
        if rule == "single_norm":
            self._op_there = _WITH_DTYPE[str(op)]()
        else:
            self._op_there = op
        self._before = before
        self._cast: _Cast | None = getattr(self, f"_{rule}", None)
        self._names = [each.name for each in op._schema.arguments]
        self._torch: Any = torch
        self._key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
        self._after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.AutocastCPU)
        self.__name__ = str(op)

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the op with arguments in the dtypes that they would have on CUDA."""
        torch = self._torch
        if not torch.is_autocast_enabled(CUDA):
            if self._before is not None:
                return self._before.call_boxed(keys, *args, **kwargs)
            # Past autocast alone, as the op would run without it.
            return self._op.redispatch(keys & self._after, *args, **kwargs)
        if self._cast is None:  # the ops that it consists of are cast
            return self._op.redispatch(keys & self._after, *args, **kwargs)
        # Casting and the op itself must not come back here.
        with torch._C._ExcludeDispatchKeyGuard(self._key):
            args, kwargs = self._cast(args, kwargs)
            return self._op_there(*args, **kwargs)

    def _lower(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return self._to(self._torch.get_autocast_dtype(CUDA), args, kwargs)

    def _single(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return self._to(self._torch.float32, args, kwargs)

    def _single_by_dtype(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Let the op compute in float32, unless the program names a dtype."""
        at = self._names.index("dtype")
        given = kwargs.get("dtype", args[at] if at < len(args) else None)
        if not self._is_cast(args[0]) or given is not None:
            return args, kwargs
        # The dtype goes by name, so what follows it in the call has to, too.
        return args[:at], {
            **dict(zip(self._names[at + 1 :], args[at + 1 :], strict=False)),
            **kwargs,
            "dtype": self._torch.float32,
        }

    def _single_norm(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Let a norm compute in float32; its overload without a dtype cannot."""
        first = args[0]
        if self._is_cast(first):
            dtype = self._torch.float32
        else:
            dtype = first.dtype
        return args, {**kwargs, "dtype": dtype}

    def _widest(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Cast to float32 if one argument has it, and else to the lower precision."""
        torch = self._torch
        tensors = [each for each in torch.utils._pytree.tree_leaves((args, kwargs)) if self._is_cast(each)]
        is_single = any(each.dtype is torch.float32 for each in tensors)
        return self._to(torch.float32 if is_single else torch.get_autocast_dtype(CUDA), args, kwargs)

    def _refused(self, _args: Any, _kwargs: Any) -> tuple[Any, Any]:
        raise RuntimeError(_UNSAFE)

    def _is_cast(self, value: Any) -> bool:
        torch = self._torch
        return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64

    def _to(self, dtype: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        def cast(value: Any) -> Any:
            if self._is_cast(value):
                return value.to(dtype)
            return value

        made: tuple[Any, Any] = self._torch.utils._pytree.tree_map(cast, (args, kwargs))
        return made
