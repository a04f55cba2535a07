"""Time a wrapper's calls of libraries and C++ kernels during the first run of a graph part.

Source: the wrappers that Inductor writes (2.11 to 2.13, _inductor/codegen/wrapper.py). They call libraries through
`extern_kernels.mm(...)` or `torch.ops.aten.mm.default(...)`, and C++ kernels by names that start with `cpp_fused`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol

from ctrace.inspector.capture.isolation.second_run import SecondRun

_EXTERNAL = "extern_kernels"
_CPP = "cpp_fused"
_OTHER = "it is no function of torch, and may do more than compute"


class Timing(Protocol):
    """Times a call before the wrapper makes it."""

    is_measuring: bool

    def time(
        self,
        name: str,
        launcher_of: Callable[[SecondRun], Callable[[], Any]],
        args: Any,
        kwargs: Any,
        written: Any,
        why: str = "",
    ) -> None:
        """Time a call on copies of its arguments."""


@contextmanager
def passing_by(run: Timing, module: ModuleType) -> Iterator[None]:
    """Let `run` time the calls that `module` makes in this block."""
    calls, names = _Calls(run), vars(module)
    kept = {name: value for name, value in names.items() if name == _EXTERNAL or name.startswith(_CPP)}
    for name, value in kept.items():
        names[name] = _Namespace(calls, value) if name == _EXTERNAL else calls.timing(name, value)
    try:
        with calls.of_aten():
            yield
    finally:
        names.update(kept)


class _Calls:
    """Times calls, but not the aten ops inside a call that has a name in the wrapper."""

    def __init__(self, run: Timing) -> None:
        self._run = run
        self._is_named = False

    def timing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that its calls are timed."""

        is_ours = name.startswith(_CPP)
        why = "" if is_ours or _is_torchs(function) else _OTHER

        def call(*args: Any, **kwargs: Any) -> Any:
            self._time(name, function, args, kwargs, (*args, *kwargs.values()) if is_ours else (), why)
            outer, self._is_named = self._is_named, True
            try:
                return function(*args, **kwargs)
            finally:
                self._is_named = outer

        return call

    @contextmanager
    def of_aten(self) -> Iterator[None]:
        """Time aten ops that the wrapper calls directly.

        Other ops may have side effects, such as communication between processes; they are not called a second time.
        """
        from torch.utils._python_dispatch import TorchDispatchMode

        calls = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                kwargs = kwargs or {}
                if not calls._is_named and not calls._run.is_measuring and _computes(func, args, kwargs):
                    calls._time(f"torch.ops.{func}", func, args, kwargs, _written(func, args, kwargs))
                return func(*args, **kwargs)

        with Mode():
            yield

    def _time(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, written: Any, why: str = ""
    ) -> None:
        if not self._run.is_measuring:

            def launcher_of(again: SecondRun) -> Callable[[], Any]:
                return lambda: function(*again.args, **again.kwargs)

            self._run.time(name, launcher_of, args, kwargs, written, why)


class _Namespace:
    """Replaces `extern_kernels` of a wrapper."""

    def __init__(self, calls: _Calls, kernels: Any) -> None:
        self._calls = calls
        self._kernels = kernels

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._kernels, name)
        return self._calls.timing(f"{_EXTERNAL}.{name}", function) if callable(function) else function


def _is_torchs(function: Any) -> bool:
    """Whether a function of `extern_kernels` is torch's own; the program may register others."""
    return str(getattr(function, "__module__", "")).partition(".")[0] == "torch"


def _computes(func: Any, args: Any, kwargs: Any) -> bool:
    import torch
    from torch.utils import _pytree

    computes = func.namespace == "aten" and not func.is_view and func is not torch.ops.aten._local_scalar_dense.default
    return computes and any(isinstance(leaf, torch.Tensor) for leaf in _pytree.tree_leaves((args, kwargs)))


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return the arguments that an op writes to, by its schema."""
    arguments = func._schema.arguments
    values = dict(zip((each.name for each in arguments), args, strict=False)) | kwargs
    return [
        values[each.name] for each in arguments if each.name in values and getattr(each.alias_info, "is_write", False)
    ]
