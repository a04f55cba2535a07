"""Write the entry of this machine's GPU; the facts are from torch 2.11 on a real H100."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu, gpu_named, gpus
from ctrace.inspector.runs.local_gpu import AtHand, entry, in_units

TOLD = {
    "title": "NVIDIA H100 80GB HBM3", "capability": "9.0", "processors": 132, "registers": 65536, "threads": 2048,
    "threads_per_block": 1024, "warp": 32, "shared": 233472, "shared_per_block": 49152,
    "shared_per_block_optin": 232448, "memory": 85017493504, "l2": 52428800, "clock": 1980000,
    "memory_clock": 2619000, "bus": 5120,
}  # fmt: skip


def read_back(text: str, folder: Path) -> TargetGpu:
    file = folder / "gpu.yaml"
    file.write_text(text, encoding="utf-8")
    return gpu_named(str(file))


def at_hand(**other: object) -> AtHand:
    return AtHand(in_units({**TOLD, **other}), (), "2.11.0")


def test_it_is_read_again(tmp_path: Path) -> None:
    gpu = read_back(entry(at_hand(), gpus()), tmp_path)
    assert replace(gpu, sources={}) == replace(gpu_named("h100"), sources={})
    assert gpu.sources["memory"] == "driver, reported by torch 2.11.0"
    assert gpu.sources["rates"] == gpu_named("h100").sources["rates"]


def test_one_that_the_table_does_not_know(tmp_path: Path) -> None:
    text = entry(at_hand(title='NVIDIA "X1": \x1b Pro'), gpus())
    gpu = read_back(text, tmp_path)
    assert (gpu.name, gpu.title, gpu.rates) == ("x1-pro", 'NVIDIA "X1": \x1b Pro', {})
    assert "# rates: {float16: 1e14}" in text
    assert "# The driver does not report rates." in text


def test_a_part_of_a_known_one_has_not_its_rates(tmp_path: Path) -> None:
    assert read_back(entry(at_hand(processors=60), gpus()), tmp_path).rates == {}


def test_what_is_not_told_is_said_and_taken_from_the_table(tmp_path: Path) -> None:
    text = entry(at_hand(l2=None, clock=None, bus=0), gpus())
    assert "# torch 2.11.0 and the driver do not report: l2, clock, bandwidth" in text
    gpu = read_back(text, tmp_path)
    assert replace(gpu, sources={}) == replace(gpu_named("h100"), sources={})
    assert gpu.sources["l2"] == gpu_named("h100").sources["l2"]


def test_what_is_not_told_of_an_unknown_one_is_not_known(tmp_path: Path) -> None:
    gpu = read_back(entry(at_hand(title="X1", clock=None, memory_clock=None), gpus()), tmp_path)
    assert (gpu.clock, gpu.bandwidth) == (None, None)


def test_what_the_driver_was_asked_for_is_said(tmp_path: Path) -> None:
    text = entry(AtHand(in_units(TOLD), ("l2", "clock"), "2.20.0"), gpus())
    gpu = read_back(text, tmp_path)
    assert (gpu.sources["l2"], gpu.sources["warp"]) == ("driver, read directly", "driver, reported by torch 2.20.0")


def test_a_name(tmp_path: Path) -> None:
    assert read_back(entry(at_hand(), gpus(), "My H100"), tmp_path).name == "my-h100"
    assert read_back(entry(at_hand(), gpus(), "on"), tmp_path).name == "on"


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "\x1b", "x" * 90])
def test_no_name(name: str) -> None:
    with pytest.raises(TargetError, match="not a valid GPU name"):
        entry(at_hand(), gpus(), name)
