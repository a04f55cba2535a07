"""`ctrace explain --fast`: incompatible options get two lines and exit code 2."""

import json
from pathlib import Path

import pytest

from tests.support.inprocess import ctrace

PROGRAM = """
import torch

@torch.compile(backend="inductor")
def loss(x):
    y = x * 3
    print("loss")
    return y.sum()

x = torch.ones(2, requires_grad=True)
loss(x).backward()
assert x.grad[0].item() == 3
"""


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--target", "h100"), "--fast and --target exclude each other"),
        (("--build",), "--fast and --build exclude each other"),
        (("--backend", "eager"), "--fast and --backend exclude each other"),
    ],
)
def test_options_that_need_a_backend_are_refused(
    options: tuple[str, ...], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("model = abs\ninputs = (1,)\n")
    ran = ctrace("explain", "model.py", "--fast", *options)
    assert (ran.code, ran.err.splitlines()[0]) == (2, f"ctrace: {what}")
    assert len(ran.err.splitlines()) == 2


@pytest.mark.integration
def test_a_program_runs_with_dynamo_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever backend the program names, its graphs run as Dynamo captured them, and gradients flow through them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    ran = ctrace("explain", "train.py", "--fast", "--json")
    assert ran.code == 0, ran.err
    data = json.loads(ran.out)
    assert len(data["graphs"]) == 2
    assert len(data["breaks"]) == 1
    assert data["kernels"] == []
    assert "Fast run" in ctrace("explain").out


@pytest.mark.parametrize("command", ["", "explain"])
def test_help_has_whole_sentences(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = ctrace(*command.split(), "--help")
    assert "..." not in ran.out.replace("...]...", "").replace("[ARGS]...", "").replace("[args]...", "").replace(
        "args...", ""
    )
    assert max(map(len, ran.out.splitlines())) <= 80
