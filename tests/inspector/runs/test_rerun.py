"""What a saved run was made of."""

from dataclasses import replace
from pathlib import Path

import pytest

from ctrace.inspector.errors import RunError
from ctrace.inspector.gpus.table import gpu_named
from ctrace.inspector.model.session import Target
from ctrace.inspector.runs.order import Options, Order
from ctrace.inspector.runs.rerun import merged, order_of, resolved_of, same_but_for_gpu
from ctrace.inspector.runs.store import Run, Store
from ctrace.inspector.runs.target import ModelTarget, ProgramTarget


def made(tmp_path: Path, **parts: object) -> tuple[Run, Order]:
    model = tmp_path / "model.py"
    model.write_text("model = 1\n")
    order = Order("model", str(model), None, "net", (), Options(train=True), str(tmp_path / "trace.log"))
    order = replace(order, **parts)  # type: ignore[arg-type]
    run = Store(tmp_path / ".ctrace").create(Target(order.path, "net"))
    run.order.write_text(order.to_json())
    return run, order


def test_a_model_and_a_program(tmp_path: Path) -> None:
    run, order = made(tmp_path)
    assert order_of(run) == order
    assert resolved_of(order) == ModelTarget(tmp_path / "model.py", None, "net")
    program = replace(order, kind="program", args=("--fast",))
    assert resolved_of(program) == ProgramTarget(tmp_path / "model.py", None, ("--fast",))
    assert resolved_of(replace(order, path=None, module="a.b")) == ModelTarget(None, "a.b", "net")


def test_an_older_order_without_a_gpu(tmp_path: Path) -> None:
    run, order = made(tmp_path)
    run.order.write_text(order.to_json().replace(', "gpu": null', ""))
    assert order_of(run).gpu is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"options": 3}'])
def test_an_order_that_cannot_be_read(text: str, tmp_path: Path) -> None:
    run, _ = made(tmp_path)
    run.order.write_text(text)
    with pytest.raises(RunError, match="cannot be read"):
        order_of(run)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    run, order = made(tmp_path)
    Path(str(order.path)).unlink()
    with pytest.raises(RunError, match="no longer exists"):
        order_of(run)


def test_runs_of_the_same_for_other_gpus(tmp_path: Path) -> None:
    _, order = made(tmp_path)
    on = [replace(order, log=name, gpu=gpu_named(name), options=replace(order.options, target=name))
          for name in ("a100", "h100")]  # fmt: skip
    assert same_but_for_gpu(*on)
    assert not same_but_for_gpu(on[0], replace(on[1], options=replace(on[1].options, train=False)))


def test_options_of_the_command_line_come_over_saved_ones() -> None:
    saved = Options(inputs=("float32[8]",), train=True)
    assert merged(saved, Options(mode="max-autotune", inputs=("bool[3]",))) == Options(
        inputs=("bool[3]",), train=True, mode="max-autotune"
    )
