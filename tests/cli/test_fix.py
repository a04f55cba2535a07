"""`ctrace fix`, as far as it goes without torch: options that do not fit, and undo."""

import contextlib
import json
from pathlib import Path

import pytest

from ctrace.cli.command_options import seconds_of
from ctrace.cli.commands.fix import FixRequest, _options_of
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.features.fix.repairs.applying import apply
from ctrace.inspector.features.fix.repairs.fixing import RepairChoice
from ctrace.inspector.runs.capture_request import Options
from tests.support import inprocess


@pytest.mark.parametrize(
    ("text", "seconds"), [("120s", 120.0), ("5m", 300.0), ("1h", 3600.0), ("1.5", 1.5), (None, None)]
)
def test_budget(text: str | None, seconds: float | None):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "fast", "-3s", "0s", "3 days"])
def test_a_budget_that_is_no_time(text: str):
    with pytest.raises(TargetError, match="not a time"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "needs a target"),
        (("model.py", "--json", "--diff"), "--json and --diff exclude each other"),
        (("model.py", "--only", "tensor_brunch"), "--only tensor_brunch: there is no such repair"),
        (("model.py", "--accept", "nothing"), "--accept nothing: there is no such repair"),
        (("absent.py",), "there is no file absent.py"),
        (("model.py", "--undo"), "--undo takes no target"),
        (("--undo",), "there is no applied repair to undo"),
        (("broken.py",), "broken.py, line 1"),
    ],
)
def test_bad_input_is_two_lines(tmp_path: Path, words: tuple[str, ...], what: str):
    (tmp_path / "model.py").write_text("model = 1\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    with contextlib.chdir(tmp_path):
        ran = inprocess.ctrace("fix", *words)
    assert ran.code == 2
    assert what in ran.err
    assert len(ran.err.strip().splitlines()) == 2


def test_did_you_mean(tmp_path: Path):
    with contextlib.chdir(tmp_path):
        ran = inprocess.ctrace("fix", "model.py", "--only", "mark_dynamik")
    assert "did you mean mark_dynamic?" in ran.err


def test_undo_restores_the_file(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text("a = 1\n")
    base = {str(file): "a = 1\n"}
    apply(tmp_path / ".ctrace", ["x"], base, [NewText(str(file), "a = 2\n")], str(tmp_path))
    with contextlib.chdir(tmp_path):
        ran = inprocess.ctrace("fix", "--undo")
    assert (ran.code, file.read_text()) == (0, "a = 1\n")
    assert ran.err == "Restored model.py\n"


def test_its_schema_is_shipped():
    schema = json.loads(inprocess.ctrace("schema", "fix").out)
    assert {"findings", "repairs", "combined"} <= set(schema["properties"])


def test_the_next_command_repeats_what_led_to_the_repairs():
    choice = RepairChoice(names=("tensor_branch",), finding="net.py:11", accepted=("tensor_branch",))
    request = FixRequest("net.py", (), Options(train=True, mode="max-autotune"), choice)
    assert _options_of(request) == (
        "--train --mode max-autotune --only tensor_branch --finding net.py:11 --accept tensor_branch"
    )
    assert _options_of(FixRequest("net.py", (), Options(), RepairChoice())) == ""
