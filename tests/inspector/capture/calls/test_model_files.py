"""The model of a file, and whether its inputs fit."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from ctrace.inspector.capture.calls.model_files import load
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.capture_request import CaptureRequest, Options

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


PAIR = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x, {second}):
        return x


model = Net()
inputs = (torch.ones(2),), {{"scale": torch.ones(1)}}
"""


@pytest.mark.parametrize(("second", "is_pair"), [("scale", True), ("options", False)])
def test_a_pair_of_arguments_and_keywords_is_both(
    second: str, is_pair: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dict whose names are no parameters is the second argument."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    file = tmp_path / f"pair_{second}.py"
    file.write_text(PAIR.format(second=second))
    loaded = load(CaptureRequest("model", str(file), None, None, (), Options(), ""), Preloaded(frozenset(sys.modules)))
    call = loaded.scenarios["base"].make()
    assert (len(call.args), list(call.kwargs)) == ((1, ["scale"]) if is_pair else (2, []))
