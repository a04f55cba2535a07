"""Trials in the capturing process: edited sources, settings, and refusals."""

import importlib
import sys
from pathlib import Path

import pytest

from ctrace.inspector.capture.calls.applied_trial import TrialError, edited_sources, edited_text, settings_of
from ctrace.inspector.facts.trial import LineEdit, Trial


def test_a_line_is_replaced_and_all_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("a = 1\nb = 2\n")
    assert edited_text(path, (LineEdit(str(path), 2, "b = 3", "b = 2"),)) == "a = 1\nb = 3\n"


@pytest.mark.parametrize(("line", "was"), [(2, "b = 9"), (0, "a = 1"), (9, "")])
def test_a_changed_line_is_refused(tmp_path: Path, line: int, was: str) -> None:
    path = tmp_path / "m.py"
    path.write_text("a = 1\nb = 2\n")
    with pytest.raises(TrialError, match="has changed"):
        edited_text(path, (LineEdit(str(path), line, "x", was),))


def test_edits_reach_a_module_that_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits apply despite cached bytecode; the file does not change, and the next import reads it unedited."""
    name = "ctrace_tried_module"
    path = tmp_path / f"{name}.py"
    path.write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert importlib.import_module(name).value == 1
        del sys.modules[name]
        with edited_sources((LineEdit(str(path), 1, "value = 2", "value = 1"),)):
            assert importlib.import_module(name).value == 2
        del sys.modules[name]
        assert importlib.import_module(name).value == 1
    finally:
        sys.modules.pop(name, None)
    assert path.read_text() == "value = 1\n"


def test_settings_are_put_back() -> None:
    config = pytest.importorskip("torch._dynamo.config")
    before = config.capture_scalar_outputs
    with settings_of(Trial(settings=(("capture_scalar_outputs", not before),))):
        assert config.capture_scalar_outputs is not before
    assert config.capture_scalar_outputs is before


@pytest.mark.parametrize("trial", [Trial(settings=(("no_such_setting", True),)), Trial(ignored=("math:nothing",))])
def test_what_torch_does_not_have_is_refused(trial: Trial) -> None:
    pytest.importorskip("torch._dynamo.config")
    with pytest.raises(TrialError), settings_of(trial):
        pass
