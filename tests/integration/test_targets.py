"""User-defined GPUs, end to end, and `--read` on a machine without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ctrace.inspector.install_folders import HOME

MODEL = """\
import torch
torch.set_float32_matmul_precision("high")
model = torch.nn.Linear(1023, 1021)
def inputs(): return (torch.rand(513, 1023),)
"""


def ctrace(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    boot = f"import sys; sys.path.insert(0, {str(HOME)!r}); from ctrace.cli.main import app; app(prog_name='ctrace')"
    return subprocess.run([sys.executable, "-c", boot, *words], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_file_is_a_target(tmp_path: Path) -> None:
    """A model whose matmul has a shape for which torch would time padding."""
    (tmp_path / "m.py").write_text(MODEL)
    (tmp_path / "mine.yaml").write_text("mine: {extends: h100, processors: 99, vector_rates: {float32: 1e13}}")
    done = ctrace("explain", "m.py", "--target", "mine.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    logs = [line for log in tmp_path.glob(".ctrace/*/trace.log") for line in log.read_text().splitlines()]
    found = [json.loads(logs[at + 1]) for at, line in enumerate(logs) if '"ctrace_gpu"' in line]
    assert {each["target"] for each in found} == {"mine"}
    assert ("padding", "addmm(513x1023, 1023x1021) float32", "not padded") in _open(logs)
    assert found[-1]["processors"] == 99
    assert found[-1]["vector_rates"]["float32"] == 1e13
    assert found[-1]["sources"]["processors"] == "your mine.yaml"
    assert sorted(found[-1]["tf32"]) == ["convolution", "matmul"]


def _open(logs: list[str]) -> set[tuple[str, str, str]]:
    """Return the choices that torch would have timed."""
    records = [json.loads(logs[at + 1]) for at, line in enumerate(logs) if '"ctrace_undecided"' in line]
    return {(each["kind"], each["subject"], each["taken"]) for each in records}


def test_an_invalid_file_gets_two_lines_and_no_run(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODEL)
    (tmp_path / "mine.yaml").write_text("mine: {extends: h100, processors: many}")
    done = ctrace("explain", "m.py", "--target", "mine.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "ctrace: mine.yaml: mine: processors is many",
        "  write a whole number from 1 to 100000",
    ]
    assert not list(tmp_path.glob(".ctrace/*"))


def test_reading_without_a_gpu(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = ctrace("targets", "--read", "-o", "gpu.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 2)
    assert not (tmp_path / "gpu.yaml").exists()


def test_reading_the_local_gpu(tmp_path: Path) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    assert ctrace("targets", "--read", "-o", "gpu.yaml", cwd=tmp_path).returncode == 0
    shown = json.loads(ctrace("targets", "gpu.yaml", "--json", cwd=tmp_path).stdout)
    properties = torch.cuda.get_device_properties(0)
    assert (shown["title"], shown["memory"]) == (properties.name, properties.total_memory)
