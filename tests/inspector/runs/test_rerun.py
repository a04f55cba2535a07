"""The options to rerun a saved run."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.session import Target
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.rerun import merged, request_of, resolved_of, same_but_for_gpu, what_of
from ctrace.inspector.runs.store import SavedRun, Store
from ctrace.inspector.runs.target import ModelTarget, ProgramTarget


def made(tmp_path: Path, **parts: object) -> tuple[SavedRun, CaptureRequest]:
    model = tmp_path / "model.py"
    model.write_text("model = 1\n")
    request = CaptureRequest("model", str(model), None, "net", (), Options(train=True), str(tmp_path / "trace.log"))
    request = replace(request, **parts)
    run = Store(tmp_path / ".ctrace").create(Target(request.path, "net"))
    run.request.write_text(request.to_json())
    return run, request


def test_a_model_and_a_program(tmp_path: Path) -> None:
    run, request = made(tmp_path)
    assert request_of(run) == request
    assert resolved_of(request) == ModelTarget(tmp_path / "model.py", None, "net")
    program = replace(request, kind="program", args=("--fast",))
    assert resolved_of(program) == ProgramTarget(tmp_path / "model.py", None, ("--fast",))
    assert resolved_of(replace(request, path=None, module="a.b")) == ModelTarget(None, "a.b", "net")


def test_a_folder_of_transformers_is_named_as_on_the_command_line(tmp_path: Path) -> None:
    _, request = made(tmp_path)
    assert what_of(request) == f"{tmp_path / 'model.py'}:net"
    assert what_of(replace(request, path=str(tmp_path), name="")) == f"hf:{tmp_path}"


def test_an_older_order_without_a_gpu(tmp_path: Path) -> None:
    run, request = made(tmp_path)
    run.request.write_text(request.to_json().replace(', "gpu": null', ""))
    assert request_of(run).gpu is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"options": 3}'])
def test_an_order_that_cannot_be_read(text: str, tmp_path: Path) -> None:
    run, _ = made(tmp_path)
    run.request.write_text(text)
    with pytest.raises(RunError, match="cannot be read"):
        request_of(run)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    run, request = made(tmp_path)
    Path(str(request.path)).unlink()
    with pytest.raises(RunError, match="no longer exists"):
        request_of(run)


def test_runs_of_the_same_for_other_gpus(tmp_path: Path) -> None:
    _, request = made(tmp_path)
    on = [replace(request, log=name, gpu=gpu_named(name), options=replace(request.options, gpu=name))
          for name in ("a100", "h100")]  # fmt: skip
    assert same_but_for_gpu(*on)
    assert not same_but_for_gpu(on[0], replace(on[1], options=replace(on[1].options, train=False)))


def test_options_of_the_command_line_come_over_saved_ones() -> None:
    saved = Options(inputs=("float32[8]",), train=True)
    assert merged(saved, Options(mode="max-autotune", inputs=("bool[3]",))) == Options(
        inputs=("bool[3]",), train=True, mode="max-autotune"
    )
