"""Write values as Python expressions that make similar values."""

import enum
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ctrace.inspector.install_folders import INSPECTOR

_MOST_ITEMS = 40
_LONGEST = 200
_FEW_VALUES = 8
_PACKAGES = ("site-packages", "dist-packages")


class NoExpressionError(Exception):
    """A value cannot be written as an expression."""


class Literals:
    """Writes expressions, and collects the imports that they need."""

    def __init__(self, made: Mapping[int, "Made"]) -> None:
        """`made` has the arguments that modules were constructed with, keyed by id."""
        self.imports: dict[str, None] = {}
        self._made = made

    def write(self, value: Any) -> str:
        """Write a value.

        Raises:
            NoExpressionError: that is impossible.
        """
        match value:
            case None | bool() | str() | bytes() if not isinstance(value, enum.Enum):
                return _short(repr(value))
            case enum.Enum():
                return f"{self.name(type(value))}.{value.name}"
            case int():
                return repr(int(value))
            case float():
                return repr(value) if math.isfinite(value) else f"float('{value}')"
        return self._of_torch(value) or self._container(value) or self._object(value)

    def _of_torch(self, value: Any) -> str:
        import torch

        match value:
            case torch.Tensor():
                return self._tensor(value)
            case torch.dtype() | torch.memory_format() | torch.layout():
                return str(value)
            case torch.device():
                return f"torch.device('{value}')"
            case torch.nn.Module():
                return self.module(value)
        return ""

    def _container(self, value: Any) -> str:
        import torch

        if isinstance(value, slice):
            return f"slice({self.write(value.start)}, {self.write(value.stop)}, {self.write(value.step)})"
        if type(value) in (tuple, torch.Size):
            items = [self.write(each) for each in _few(value)]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if type(value) is list:
            return f"[{', '.join(self.write(each) for each in _few(value))}]"
        if type(value) is dict:
            return f"{{{', '.join(f'{self.write(key)}: {self.write(each)}' for key, each in _few(value.items()))}}}"
        return ""

    def _object(self, value: Any) -> str:
        if callable(getattr(value, "to_diff_dict", None)):
            return self._config(value)
        if callable(value) and hasattr(value, "__qualname__"):
            return self.name(value)
        raise NoExpressionError(type(value).__qualname__)

    def module(self, module: Any) -> str:
        """Write a module as the call that constructed it, in its mode.

        Raises:
            NoExpressionError: the call is not known, or its arguments cannot be written.
        """
        made = self._made.get(id(module))
        if made is None:
            raise NoExpressionError(type(module).__qualname__)
        args = [self.write(each) for each in made.args]
        args += [f"{name}={self.write(each)}" for name, each in made.kwargs.items()]
        return f"{self.name(type(module))}({', '.join(args)}){'' if module.training else '.eval()'}"

    def name(self, value: Any) -> str:
        """Write a class or function by name, with its import if it is in a package.

        Raises:
            NoExpressionError: no name at the top of a module leads to it.
        """
        name, module = value.__qualname__, value.__module__
        if "<" in name or module is None:
            raise NoExpressionError(name)
        if module == "builtins":
            return str(name)
        if _is_package(value):
            if module.partition(".")[0] == "torch":
                return f"{module if not module.startswith('torch.nn.modules') else 'torch.nn'}.{name}"
            self.imports[f"from {module} import {name.partition('.')[0]}"] = None
        return str(name)

    def _config(self, value: Any) -> str:
        """Write a configuration of transformers with what differs from its defaults."""
        dropped = ("transformers_version", "model_type", "architectures", "_name_or_path", "dtype", "torch_dtype")
        try:
            defaults = type(value)().to_diff_dict()
        except Exception:  # a configuration that needs arguments
            defaults = {}
        fields = {
            name: each
            for name, each in value.to_diff_dict().items()
            if name not in dropped and not (name in defaults and defaults[name] == each)
        }
        if (chosen := getattr(value, "_attn_implementation", None)) is not None:
            fields["attn_implementation"] = chosen
        if (chosen := getattr(value, "_experts_implementation", None)) is not None:
            fields["experts_implementation"] = chosen
        inner = ", ".join(f"{name}={self.write(each)}" for name, each in fields.items())
        return f"{self.name(type(value))}({inner})"

    def _tensor(self, value: Any) -> str:
        import torch

        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
            raise NoExpressionError("tensor subclass")
        sizes = ", ".join(str(int(each)) for each in value.shape)
        dtype = "" if value.dtype in (torch.float32, torch.int64, torch.bool) else f", dtype={value.dtype}"
        device = "" if value.device.type == "cpu" else f", device='{value.device}'"
        grad = ", requires_grad=True" if value.requires_grad and value.is_leaf else ""
        if value.dtype.is_floating_point or value.dtype.is_complex:
            text = f"torch.randn({sizes or '()'}{dtype}{device}{grad})"
            if value.dtype.itemsize == 1:
                text = f"torch.randn({sizes or '()'}{device}).to({value.dtype})"
        elif value.numel() <= _FEW_VALUES:
            text = f"torch.tensor({value.tolist()}{dtype}{device})"
        elif value.dtype is torch.bool:
            text = f"torch.ones({sizes}, dtype=torch.bool{device})"
            if not bool(value.all()):
                text = f"torch.randn({sizes}{device}) > 0"
        else:
            text = f"torch.randint({int(value.min())}, {int(value.max()) + 1}, ({sizes},){dtype}{device})"
        if not value.is_contiguous() and value.dim() > 1 and value.mT.is_contiguous():
            text += ".mT.contiguous().mT"
        return text


class Made:
    """The arguments that a module was constructed with."""

    def __init__(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs


def _few(values: Any) -> Iterator[Any]:
    if len(values) > _MOST_ITEMS:
        raise NoExpressionError("a long list")
    yield from values


def _short(text: str) -> str:
    if len(text) > _LONGEST:
        raise NoExpressionError("a long string")
    return text


def _is_package(value: Any) -> bool:
    """Whether a class or function comes from an installed package or the standard library."""
    import sys

    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    if file is None or file.startswith(str(INSPECTOR)):
        return False
    return any(part in _PACKAGES for part in Path(file).parts) or file.startswith((sys.base_prefix, sys.prefix))
