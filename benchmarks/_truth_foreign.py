"""Loads cases that others wrote; copied beside each case of `truth.py`, so that both worlds load it the same way.

It imports torch and the case, and knows nothing of ctrace. Modules that are not installed are replaced by stubs, but
only those that the case imports itself: torch asks for optional packages, too, and must get the answer it always gets.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import socket
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

_SEED = 20
_IMPORT = re.compile(r"^[ \t]*(?:from (?P<one>\w[\w.]*) import|import (?P<many>\w[\w., \t]*))", re.MULTILINE)
Inputs = Callable[[], Any]


class _Stub(types.ModuleType):
    """A module in which every name exists: a class where the name is written like one, otherwise a mock."""

    __version__ = "99"
    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (_Anything,), {"__module__": self.__name__}) if name[:1].isupper() else mock.MagicMock()
        setattr(self, name, made)
        return made


class _AnyName(type):
    """The type of a class in which every name exists."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock()


class _Anything(metaclass=_AnyName):
    """A class that takes any arguments."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return mock.MagicMock()


class _Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: finds the named modules, and all below them."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = set(names)

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        if name.partition(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return _Stub(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


def stub(*names: str) -> None:
    """Replace packages that are not installed."""
    sys.meta_path.append(_Stubs(each for each in names if importlib.util.find_spec(each) is None))


def seal() -> None:
    """Refuse connections to other machines, also where no network namespace could be made."""
    kind: Any = socket.socket
    connect = kind.connect

    def refuse(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            raise OSError(f"a case must not use the network: {address}")
        return connect(self, address)

    kind.connect = refuse


def seeded(make: Inputs) -> Inputs:
    """Return the function that makes the inputs with the same random numbers each time."""
    import torch

    def inputs() -> Any:
        torch.manual_seed(_SEED)
        return make()

    return inputs


def paritybench(file: str, number: int) -> tuple[Any, Inputs]:
    """Return the model and the inputs of one entry of TESTCASES in a generated file of pytorch-jit-paritybench."""
    import torch

    path = Path(file)
    stub(*_imported(path), "expecttest", "google", "tensorboard")  # what torch's tests and its writer of logs import
    _restore_old_names()
    sys.modules["_paritybench_helpers"] = _helpers()
    module = _module(path)
    kind, init_args, forward_args = module.TESTCASES[number][:3]
    torch.manual_seed(_SEED)
    args, kwargs = init_args()
    model = kind(*args, **kwargs)
    model.eval()

    def make() -> Any:
        args, kwargs = forward_args()
        return _Both(args, kwargs) if kwargs else tuple(args)

    return _with_keywords(model, make)


def kernelbench(file: str) -> tuple[Any, Inputs]:
    """Return the model and the inputs of a file of KernelBench."""
    import torch

    module = _module(Path(file))
    torch.manual_seed(_SEED)
    return module.Model(*module.get_init_inputs()).eval(), seeded(lambda: tuple(module.get_inputs()))


_SMALL = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "embed_dim": 32, "embedding_size": 32, "dim": 32, "hidden_dim": 32,
    "num_hidden_layers": 2, "n_layer": 2, "num_layers": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_attention_heads": 2, "n_head": 2, "num_heads": 2, "n_heads": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 64,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "ffn_dim": 64, "vocab_size": 128, "max_position_embeddings": 64,
    "max_source_positions": 64, "image_size": 32, "patch_size": 8, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
"""Values for the attributes that a config of transformers has, for a model that takes seconds."""


def transformers(kind: str) -> tuple[Any, Inputs]:
    """Return a small model of a type that transformers knows, with random weights."""
    import torch

    library: Any = importlib.import_module("transformers")
    config = library.AutoConfig.for_model(kind)
    given = config.to_dict()
    config = library.AutoConfig.for_model(kind, **{name: value for name, value in _SMALL.items() if name in given})
    torch.manual_seed(_SEED)
    model = library.AutoModel.from_config(config).eval()
    name = model.main_input_name
    frames = 2 * getattr(config, "max_source_positions", 50)  # what Whisper asks for; others take any number
    made: Inputs = {
        "input_ids": lambda: torch.randint(3, 100, (2, 16)),
        "pixel_values": lambda: torch.rand(2, 3, 32, 32),
        "input_values": lambda: torch.rand(2, 4000),
        "input_features": lambda: torch.rand(2, 80, frames),
    }[name]
    keywords = ["decoder_input_ids"] if getattr(config, "is_encoder_decoder", False) else []
    return model, seeded(lambda: {name: made(), **{each: torch.randint(3, 100, (2, 8)) for each in keywords}})


def timm(name: str) -> tuple[Any, Inputs]:
    """Return a model of timm with random weights."""
    import torch

    stub("torchvision")
    library: Any = importlib.import_module("timm")
    torch.manual_seed(_SEED)
    model = library.create_model(name, pretrained=False, num_classes=10).eval()
    size = model.default_cfg["input_size"]
    return model, seeded(lambda: (torch.rand(2, *size),))


def _restore_old_names() -> None:
    """Restore the names in Python and NumPy that they had when most of these projects were written."""
    import collections
    import collections.abc

    import numpy

    for name in (
        "Callable",
        "Hashable",
        "Iterable",
        "Iterator",
        "Mapping",
        "MutableMapping",
        "OrderedDict",
        "Sequence",
    ):
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    for name, kind in {"bool": bool, "float": float, "int": int, "object": object}.items():
        if name not in vars(numpy):
            setattr(numpy, name, kind)


class _Both:
    """Positional and keyword arguments."""

    def __init__(self, args: Any, kwargs: Any) -> None:
        self.args, self.kwargs = tuple(args), kwargs


def _with_keywords(model: Any, make: Inputs) -> tuple[Any, Inputs]:
    """A model file gives arguments by position or by name; turn both into names."""
    import inspect

    def inputs() -> Any:
        made = make()
        if not isinstance(made, _Both):
            return made
        names = list(inspect.signature(model.forward).parameters)
        return {**dict(zip(names, made.args, strict=False)), **made.kwargs}

    return model, seeded(inputs)


def _module(path: Path) -> Any:
    """Import a file by its path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _imported(path: Path) -> set[str]:
    """Return the top-level modules that a file imports and that are not installed. To parse the file takes a second."""
    found = set()
    for match in _IMPORT.finditer(path.read_text(encoding="utf-8")):
        words = match["one"] or match["many"]
        found |= {each.split()[0].partition(".")[0] for each in words.split(",") if each.strip()}
    return {each for each in found if each not in sys.modules and importlib.util.find_spec(each) is None}


def _helpers() -> Any:
    """Return what generated files import from `_paritybench_helpers`, without the test suite of torch behind it."""
    import unittest

    import torch

    module: Any = types.ModuleType("_paritybench_helpers")

    class Config(dict[str, Any]):
        __getattr__ = dict.__getitem__

    class Layer(torch.nn.ReLU):
        expansion = 1

    def layer(in_features: Any = None, out_features: Any = None, *_: Any, **kwargs: Any) -> Any:
        return torch.nn.Linear(in_features, out_features, **kwargs) if in_features and out_features else Layer()

    def patch_functional() -> None:
        # Some projects import torch.functional as F, others torch.nn.functional; their files expect either.
        first, second = torch.functional, torch.nn.functional
        for into, source in ((first, second), (second, first)):
            for name in [each for each in dir(source) if each[0].islower() and not hasattr(into, each)]:
                setattr(into, name, getattr(source, name))

    module._mock_config, module._mock_layer, module.patch_functional = Config, layer, patch_functional
    module._fails_compile = lambda: lambda function: function
    module._paritybench_base = unittest.TestCase
    return module
