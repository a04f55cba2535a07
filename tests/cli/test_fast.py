"""`ctrace explain --fast`: incompatible options get two lines and exit code 2."""

from pathlib import Path

import pytest

from tests.support.inprocess import ctrace


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


def test_a_program_chooses_its_backend_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\nprint(torch.compile(abs)(1))\n")
    ran = ctrace("explain", "train.py", "--fast")
    assert ran.code == 2
    assert "is a program" in ran.err


@pytest.mark.parametrize("command", ["", "explain"])
def test_help_has_whole_sentences(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = ctrace(*command.split(), "--help")
    assert "..." not in ran.out.replace("...]...", "").replace("[ARGS]...", "").replace("[args]...", "").replace(
        "args...", ""
    )
    assert max(map(len, ran.out.splitlines())) <= 80
