"""Problems that emitting records for what it leaves out, and switches that it restores."""

import gc
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("torch")

from torch._inductor import config

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.inductor import emit
from ctrace.inspector.capture.inductor.emit import Elsewhere


class Problems:
    def __init__(self) -> None:
        self.found: list[str] = []

    def problem(self, what: str) -> None:
        self.found.append(what)


@pytest.fixture
def problems() -> Any:
    return Problems()


def test_autotuning_that_was_asked_for_is_said_not_to_be_measured(problems: Any) -> None:
    tuning = emit.unmeasured(cast(Recorder, problems))
    assert tuning.allowed({"max_autotune": True, "epilogue_fusion": False}) == {"epilogue_fusion": False}
    assert problems.found == [
        "autotuning was not measured: choices can only be timed on built kernels (--build); --target lists the "
        "candidates for a GPU"
    ]


def test_nothing_is_said_where_nobody_asked(problems: Any) -> None:
    assert emit.unmeasured(cast(Recorder, problems)).allowed({"max_autotune": False}) == {}
    assert problems.found == []


def test_autotuning_of_the_whole_process_counts_as_asked_for(problems: Any) -> None:
    with config.patch(max_autotune_gemm=True):
        emit.unmeasured(cast(Recorder, problems)).allowed({})
    assert len(problems.found) == 1


def test_a_torch_that_chooses_differently_has_no_candidates(problems: Any) -> None:
    there = cast(Elsewhere, SimpleNamespace(candidates=lambda: None))
    emit.listed(cast(Recorder, problems), there).allowed({"max_autotune": True})
    assert problems.found == [
        "autotuning candidates could not be listed: this version of torch chooses between them differently"
    ]


def test_a_graph_that_was_not_built_must_not_run() -> None:
    with pytest.raises(RuntimeError, match="ctrace emitted this graph without building it"):
        emit._not_built(1)


def fail_while_paused() -> None:
    with emit._paused_collector():
        assert not gc.isenabled()
        raise ValueError("no")


@pytest.mark.parametrize("was_on", [True, False])
def test_the_garbage_collector_is_as_before_after_an_error(was_on: bool) -> None:
    before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        with pytest.raises(ValueError, match="no"):
            fail_while_paused()
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()
