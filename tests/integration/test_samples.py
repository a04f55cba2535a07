"""Every sample model's report matches its docstring, and its fusion matches torch's log of the same run."""

from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.log.reader import read
from ctrace.inspector.session.build import build
from tests.integration.conftest import Command
from tests.support.fusionlog import assert_fused_as_logged
from tests.support.places import ROOT

SAMPLES = ROOT / "sample_models"
COMPILED = {"verdict": "compiled", "breaks": [], "skipped": []}

EXPECTED: dict[str, dict[str, Any]] = {
    "attention.py": {**COMPILED, "graphs": 1},
    "attention_training.py": {**COMPILED, "graphs": 1},
    "attention_spellings.py": {**COMPILED, "graphs": 1, "attention": ["not_matched", "matched", "fused"]},
    "attention_print.py": {"verdict": "partial", "graphs": 2, "breaks": ["GB0059"], "skipped": []},
    "transformer_stack.py": {**COMPILED, "graphs": 1},
    "mlp.py": {**COMPILED, "graphs": 1},
    "conv_net.py": {**COMPILED, "graphs": 1},
    "batch_sizes.py": {**COMPILED},
    "data_dependent.py": {"verdict": "partial", "breaks": ["GB0170"], "skipped": []},
    "step_counter.py": {"verdict": "partial", "breaks": [], "skipped": [], "limit": True},
    "custom_op.py": {**COMPILED, "graphs": 1},
    "triton_kernel.py": {**COMPILED, "graphs": 1},
    "triton_op.py": {**COMPILED, "graphs": 1},
    "skipped_loop.py": {"verdict": "not_compiled", "graphs": 0, "breaks": ["GB0059"], "skipped": ["forward"]},
    "embedding_loss.py": {**COMPILED, "graphs": 1},
    "item_sync.py": {"verdict": "partial", "breaks": ["GB0124"], "skipped": []},
}
OF_RANKS = {"fsdp_tp_llama.py"}
"""Samples of jobs of several ranks; the documented commands run them."""
SLOW = set(EXPECTED) - {"attention_training.py", "skipped_loop.py"}
"""Samples that other tests and the gate over the samples cover too."""
TRAINED = {"attention_training.py", "transformer_stack.py", "embedding_loss.py", "triton_op.py"}


@pytest.fixture
def ctrace(fresh_ctrace: Command) -> Command:
    """Captures samples in new processes, as for a user."""
    return fresh_ctrace


def test_every_sample_is_covered() -> None:
    assert {path.name for path in SAMPLES.glob("*.py")} == {*EXPECTED, *OF_RANKS}


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in EXPECTED]
)
def test_sample(name: str, ctrace: Command) -> None:
    text = ctrace.folder / "torch.log"
    words = (str(SAMPLES / name), "--json", *(["--train"] if name in TRAINED else []))
    result = ctrace("explain", *words, TORCH_LOGS="fusion", TORCH_LOGS_OUT=str(text))
    assert result.code == 0, result.err
    report, expected = result.report, EXPECTED[name]
    assert report["verdict"] == expected["verdict"]
    assert [gb for each in report["breaks"] for gb in each["gb"]] == expected["breaks"]
    assert [each["function"] for each in report["skipped"]] == expected["skipped"]
    assert report["limit"]["hit"] == expected.get("limit", False)
    if "graphs" in expected:
        assert len(report["graphs"]) == expected["graphs"]
    if "attention" in expected:
        assert sorted(each["state"] for each in report["attention"]) == sorted(expected["attention"])
    assert report["problems"] == []
    assert report["unknown"] == {}
    _assert_generated(report, trained=name in TRAINED)
    (log,) = ctrace.folder.glob(".ctrace/*/trace.log")
    assert_fused_as_logged(build(read(log)), text)


def _assert_generated(report: dict[str, Any], *, trained: bool) -> None:
    """Samples with graphs have kernels with source lines, and trained samples have both passes.

    A sample may also have a backward without training: torch compiles it at once when its shapes are dynamic.
    """
    stages = {kernel["stage"] for kernel in report["kernels"]}
    assert bool(stages) == bool(report["graphs"])
    if trained:
        assert "backward" in stages
    for kernel in report["kernels"]:
        for place in kernel["lines"]:
            file, _, line = place.rpartition(":")
            assert 1 <= int(line) <= len(Path(file).read_text().splitlines())
    if stages:
        assert any(kernel["lines"] for kernel in report["kernels"])
        assert report["fusion"]["nodes_after"] <= report["fusion"]["nodes_before"]
