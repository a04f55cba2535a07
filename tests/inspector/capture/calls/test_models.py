"""The model of a file, and whether its inputs fit."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from ctrace.inspector.capture.calls.models import load
from ctrace.inspector.capture.core.modules import Preloaded
from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.request import CaptureRequest, Options

MODEL = """\
import torch


class Net(torch.nn.Module):
    def {method}(self, x):
        return x + 1


model = Net()


def inputs():
    return {{"{name}": torch.ones(2)}}
"""


@pytest.mark.parametrize("method", ["forward", "__call__"])
def test_inputs_fit_what_a_call_enters(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class may have no forward, only a `__call__`: deepdow's layers on GitHub do."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    for name in ("x", "y"):
        file = tmp_path / f"{method}_{name}.py"
        file.write_text(MODEL.format(method=method, name=name))
        request = CaptureRequest("model", str(file), None, None, (), Options(), "")
        if name == "x":
            assert float(load(request, Preloaded(frozenset(sys.modules))).model(x=1)) == 2
            continue
        with pytest.raises(TargetError, match="do not match the model"):
            load(request, Preloaded(frozenset(sys.modules)))
