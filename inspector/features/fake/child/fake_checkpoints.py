"""Open checkpoints without their values: safetensors files as their headers; a call of `from_pretrained` stops.

A header has names, dtypes and shapes. `safetensors.torch.load_file` and `safetensors.safe_open` return tensors of the
stored shapes and dtypes, without storage. `from_pretrained` of a model reads all weights, in threads that nothing
follows; its config alone makes the same model.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.fake.child.address_range import storageless
from ctrace.inspector.features.fake.child.asked_values import AskedValues

_LOADERS = {"transformers.modeling_utils": "PreTrainedModel", "diffusers.models.modeling_utils": "ModelMixin"}
"""The classes whose `from_pretrained` all models of a library inherit (transformers 5.23, diffusers 0.42)."""
_INSTEAD = {
    "transformers.modeling_utils": "make it from its config: AutoModel.from_config(AutoConfig.from_pretrained(...))",
    "diffusers.models.modeling_utils": "make it from its config: Model.from_config(Model.load_config(...))",
}
_LONGEST = 100_000_000
"""The limit of safetensors itself, in bytes."""
_METADATA = "__metadata__"
_LENGTH = 8
"""A file begins with the length of its header, in 8 bytes, little-endian."""
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "C64": "complex64", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""Torch's names of the dtypes (safetensors 0.8, torch.py: `_TYPES`)."""


class FakeCheckpoints:
    """The hook on what reads checkpoints; it does nothing while values exist."""

    def __init__(self) -> None:
        self._asked: AskedValues | None = None

    def follow(self, asked: AskedValues) -> None:
        """Open checkpoints without values from now on."""
        self._asked = asked

    def stop(self) -> None:
        """Open checkpoints as always."""
        self._asked = None

    @contextmanager
    def __call__(self, recorder: Recorder, when: When) -> Iterator[None]:
        """Install the hook."""
        with ExitStack() as patches:

            def install(module: ModuleType) -> None:
                with recorder.watching("checkpoints without values"):
                    patches.enter_context(self._followed(module))

            for name in ("safetensors", "safetensors.torch", *_LOADERS):
                when(name, install)
            yield

    def _followed(self, module: ModuleType) -> AbstractContextManager[Any]:
        name = module.__name__
        if name == "safetensors":
            return patched(module, "safe_open", self._opening(module.safe_open))
        if name == "safetensors.torch":
            return patched(module, "load_file", self._loading(module.load_file))
        return patched(getattr(module, _LOADERS[name]), "from_pretrained", self._stopping(module))

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def safe_open(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
            if self._asked is None or framework not in ("pt", "torch", "pytorch"):
                return original(filename, framework, device, **options)
            return _OpenedHeader(filename)

        return safe_open

    def _loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_file(filename: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
            if self._asked is None:
                loaded: dict[str, Any] = original(filename, *args, **kwargs)
                return loaded
            opened = _OpenedHeader(filename)
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - no mapping

        return load_file

    def _stopping(self, module: ModuleType) -> Any:
        original = getattr(module, _LOADERS[module.__name__]).from_pretrained.__func__
        todo = _INSTEAD[module.__name__]

        def from_pretrained(cls: type, *args: Any, **kwargs: Any) -> Any:
            if self._asked is None:
                return original(cls, *args, **kwargs)
            raise self._asked.stop(self._asked.spot(of=module.__name__), f"the weights of a {cls.__name__}", todo)

        return classmethod(from_pretrained)


class _OpenedHeader:
    """What `safe_open` returns, without values (safetensors 0.8, bindings/python/src/lib.rs: `safe_open`)."""

    def __init__(self, filename: Any) -> None:
        self._file = Path(filename)
        self._stored = header_of(self._file)

    def __enter__(self) -> "_OpenedHeader":
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def keys(self) -> list[str]:
        return sorted(self._stored)

    def offset_keys(self) -> list[str]:
        return list(self._stored)

    def metadata(self) -> dict[str, str]:
        return metadata_of(self._file)

    def get_tensor(self, name: str) -> Any:
        import torch

        kind, size = self._entry(name)
        dtype = getattr(torch, DTYPES.get(kind, ""), None)
        if dtype is None:
            raise TargetError(f"{self._file}: {name} has dtype {kind}, which torch lacks", "leave the checkpoint out")
        return storageless(size, torch.empty(size, device="meta").stride(), dtype)

    def get_slice(self, name: str) -> "_Slice":
        return _Slice(self, name, *self._entry(name))

    def _entry(self, name: str) -> tuple[str, list[int]]:
        if name not in self._stored:
            raise KeyError(f"File does not contain tensor {name}")
        return self._stored[name]


class _Slice:
    """What `get_slice` returns: a tensor of which a part can be read."""

    def __init__(self, opened: _OpenedHeader, name: str, dtype: str, size: list[int]) -> None:
        self._opened, self._name, self._dtype, self._size = opened, name, dtype, size

    def get_shape(self) -> list[int]:
        return self._size

    def get_dtype(self) -> str:
        return self._dtype

    def __getitem__(self, index: Any) -> Any:
        return self._opened.get_tensor(self._name)[index]


fake_checkpoints = FakeCheckpoints()


def header_of(file: Path) -> dict[str, tuple[str, list[int]]]:
    """Return the dtype and shape of each tensor in a file, by name.

    Raises:
        TargetError: the file cannot be read, or its header is damaged.
    """
    try:
        return {
            name: (str(each["dtype"]), [int(size) for size in each["shape"]])
            for name, each in _data(file).items()
            if name != _METADATA
        }
    except (ValueError, KeyError, TypeError):
        raise _wrong(file) from None


def metadata_of(file: Path) -> dict[str, str]:
    """Return what the one who wrote a file said about it."""
    found = _data(file).get(_METADATA) or {}
    if not isinstance(found, dict):
        raise _wrong(file)
    return {str(name): str(value) for name, value in found.items()}


def _data(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(_LENGTH), "little")
            if not 0 < length <= min(_LONGEST, file.stat().st_size - _LENGTH):
                raise _wrong(file)
            data = json.loads(stream.read(length))
    except OSError as error:
        raise TargetError(f"{file} cannot be read: {error.strerror}", "check its name and its permissions") from None
    except (ValueError, RecursionError):
        raise _wrong(file) from None
    if not isinstance(data, dict):
        raise _wrong(file)
    return data


def _wrong(file: Path) -> TargetError:
    return TargetError(f"{file} has no safetensors header", "replace the file, or remove it: only its shapes are read")
