"""Folders of transformers: what is read of them, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.fake.child import model_folder


def _shard(file: Path, tensors: dict[str, Any]) -> None:
    header = json.dumps(tensors).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.dtype = torch.float32


def test_headers_are_compared_with_the_config(tmp_path: Path) -> None:
    same = {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}
    _shard(
        tmp_path / "model.safetensors", {"__metadata__": {}, "layer.weight": same, "layer.bias": {**same, "shape": [3]}}
    )
    assert list(model_folder._compared(model_folder._stored(tmp_path), Small())) == []
    _shard(tmp_path / "model.safetensors", {"layer.weight": {**same, "shape": [3, 4], "dtype": "F8_E4M3"}})
    assert list(model_folder._compared(model_folder._stored(tmp_path), Small())) == [
        "1 parameters have another shape in the checkpoint: layer.weight is [3, 4] in the checkpoint and [3, 2] by the config",
        "1 parameters are not in the checkpoint, such as layer.bias",
        "the checkpoint has weights of F8_E4M3; the model was made in torch.float32",
    ]


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "link.safetensors", "a\0b"])
def test_paths_of_an_index_stay_in_its_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    _shard(tmp_path / "model.safetensors", {})
    (folder / "link.safetensors").symlink_to(tmp_path / "model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"layer.weight": name}}))
    with pytest.raises(TargetError, match="outside of"):
        list(model_folder._compared(model_folder._stored(folder), Small()))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        (1 << 62).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{",
        (10).to_bytes(8, "little") + b'{"a":"b"} ',
    ],
)
def test_a_damaged_header_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(TargetError, match="no safetensors header"):
        list(model_folder._compared(model_folder._stored(tmp_path), Small()))


@pytest.mark.parametrize(("text", "what"), [(None, "cannot be read"), ("{", "is no JSON"), ("[]", "is no JSON object")])
def test_a_config_that_cannot_be_read_is_refused(tmp_path: Path, text: str | None, what: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(TargetError, match=what):
        model_folder.module_of(tmp_path)


def test_a_long_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b" " * (1 << 21))
    with pytest.raises(TargetError, match="more than 1 MiB"):
        model_folder.module_of(tmp_path)


def test_code_of_the_folder_does_not_run(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "own.py").write_text("raise SystemExit('it ran')")
    config = {"model_type": "own", "architectures": ["Own"], "auto_map": {"AutoModel": "own.Own"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(TargetError, match="has no Own of model_type own") as caught:
        model_folder.module_of(tmp_path)
    assert "ctrace does not run" in caught.value.todo


UNET = {
    "_class_name": "UNet2DModel",
    "sample_size": 8,
    "in_channels": 3,
    "out_channels": 3,
    "layers_per_block": 1,
    "block_out_channels": [32],
    "down_block_types": ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"],
}


def test_a_part_of_a_pipeline_of_diffusers_is_made_in_the_dtype_of_its_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    (tmp_path / "config.json").write_text(json.dumps(UNET))
    _shard(tmp_path / "diffusion_pytorch_model.safetensors", {"conv_in.bias": {"dtype": "BF16", "shape": [32]}})
    made = model_folder.module_of(tmp_path)
    assert made.model.conv_in.weight.dtype is torch.bfloat16
    assert {name: tuple(each.shape) for name, each in made.inputs().items()} == {
        "sample": (1, 3, 8, 8),
        "timestep": (1,),
    }
    (tmp_path / "config.json").write_text(json.dumps({**UNET, "_class_name": "DDPMScheduler"}))
    with pytest.raises(TargetError, match="has no model DDPMScheduler"):
        model_folder.module_of(tmp_path)


def test_a_whole_pipeline_names_its_parts(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text("{}")
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "config.json").write_text("{}")
    with pytest.raises(TargetError, match="is a pipeline of 1 models") as caught:
        model_folder.module_of(tmp_path)
    assert caught.value.todo == f"name one of its parts, such as hf:{tmp_path}/unet"
