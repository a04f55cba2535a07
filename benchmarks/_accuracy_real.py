"""A model of tests/real under autocast; ACCURACY_REAL names its file, ACCURACY_DTYPE the dtype."""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Casting(nn.Module):
    """A model under autocast."""

    def __init__(self, inner: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner, self.dtype = inner, dtype

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", dtype=self.dtype):
            return self.inner(*args, **kwargs)


def loaded(path: Path) -> Any:
    """Import a file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # Dynamo imports the modules of functions that it traces
    spec.loader.exec_module(module)
    return module


_module = loaded(Path(os.environ["ACCURACY_REAL"]))
_inner = _module.model if isinstance(_module.model, nn.Module) else _module.model()
model = Casting(_inner, getattr(torch, os.environ["ACCURACY_DTYPE"]))
inputs = _module.inputs
