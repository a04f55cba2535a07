"""Checkpoints without their values: what a safetensors file says of itself, and tensors of these shapes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.fake.child.asked_values import AskedValues
from ctrace.inspector.features.fake.child.model_folder import FakeCheckpoints
from ctrace.inspector.features.fake.child.without_storage import has_no_memory


@pytest.fixture
def checkpoints(tmp_path: Path) -> Iterator[FakeCheckpoints]:
    log = TraceLog(tmp_path / "trace.log", None)
    found = FakeCheckpoints()
    found.follow(AskedValues(Recorder(log), ()))
    yield found
    log.close()


def _file(folder: Path, dtype: str = "BF16") -> Path:
    header = {
        "__metadata__": {"format": "pt", "by": "a test"},
        "weight": {"dtype": dtype, "shape": [1 << 20, 1 << 20], "data_offsets": [0, 2 << 40]},
        "bias": {"dtype": "F32", "shape": [3], "data_offsets": [2 << 40, (2 << 40) + 12]},
    }
    text = json.dumps(header).encode()
    file = folder / "model.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text)
    return file


def _real(*_args: Any, **_kwargs: Any) -> Any:
    return "real"


def test_a_file_becomes_tensors_without_storage(checkpoints: FakeCheckpoints, tmp_path: Path) -> None:
    state = checkpoints._loading(_real)(_file(tmp_path))
    assert {name: (tuple(each.shape), each.dtype) for name, each in state.items()} == {
        "weight": ((1 << 20, 1 << 20), torch.bfloat16),
        "bias": ((3,), torch.float32),
    }
    assert all(map(has_no_memory, state.values()))


def test_a_file_can_be_opened_and_read_in_parts(checkpoints: FakeCheckpoints, tmp_path: Path) -> None:
    with checkpoints._opening(_real)(_file(tmp_path), framework="pt") as opened:
        assert (opened.keys(), opened.offset_keys()) == (["bias", "weight"], ["weight", "bias"])
        assert opened.metadata() == {"format": "pt", "by": "a test"}
        part = opened.get_slice("weight")
        assert (part.get_shape(), part.get_dtype(), part[:4, 1:].shape) == (
            [1 << 20, 1 << 20],
            "BF16",
            (4, (1 << 20) - 1),
        )
        with pytest.raises(KeyError):
            opened.get_tensor("other")


def test_what_is_no_tensor_of_torch_is_refused_or_left_alone(checkpoints: FakeCheckpoints, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="has dtype F4, which torch lacks"):
        checkpoints._loading(_real)(_file(tmp_path, "F4"))
    assert checkpoints._opening(_real)(_file(tmp_path), framework="np") == "real"
    with pytest.raises(TargetError, match="cannot be read"):
        checkpoints._loading(_real)(tmp_path / "absent.safetensors")
    checkpoints.stop()
    assert checkpoints._loading(_real)(_file(tmp_path)) == "real"
