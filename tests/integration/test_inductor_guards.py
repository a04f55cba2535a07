"""A check finds the same guards, graphs and recompiles as a capture with all of Inductor, and generates no code."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Command

_IS_STUDIED = metadata.version("torch").startswith("2.13.")
"""With other versions, a check generates code in memory and drops it; see capture/dynamo/eager_backend.py."""
ZOO = Path(__file__).with_name("dynamic_zoo.py")
QUICK = (
    "sum",
    "half",
    "gated",
    "paired",
    "overlapping",
    "factor",
    "repeated",
    "counted",
    "dynamic",
    "tuned",
)
SLOW = (
    "half_sum", "unet", "attention", "attention_trained", "recurrent_trained", "tokens_trained", "conv", "normalized",
    "softmax_both", "ordered", "windows", "spectrum", "rolled", "scaled", "taken", "static",
)  # fmt: skip
HIDDEN = {"sum": "graphs", "half_sum": "graphs", "gated": "recompiles", "unet": "recompiles"}
"""Models for which a capture without Inductor differs, with the differences."""


def _compared(ctrace: Command, *names: str) -> dict[str, Any]:
    output = ctrace.folder / "seen.json"
    ctrace.python(str(ZOO), str(output), *names, timeout=1200).check_returncode()
    return dict(json.loads(output.read_text()))


def _check(name: str, seen: dict[str, Any]) -> None:
    assert seen["checked"] == seen["whole"], name
    if _IS_STUDIED:
        assert seen["generated"] == 0, name
    assert seen["kept"] == [False] * 4, name
    assert seen["problems"] == [], name
    assert seen["not_lowered"] or not seen["added"], name
    # Trials of advice leave Inductor out if it added no guard (runs/trial_runner.py, `has_settled_guards`).
    assert {id_: sorted(added) for id_, added in seen["late"].items()} == {
        id_: sorted(added) for id_, added in seen["added"].items()
    }, name
    counts = [(seen[run]["graphs"], seen[run]["recompiles"]) for run in ("left_out", "whole")]
    assert any(seen["late"].values()) or counts[0] == counts[1], name
    if name in HIDDEN:
        assert seen["left_out"][HIDDEN[name]] != seen["whole"][HIDDEN[name]], name


@pytest.mark.long
@pytest.mark.integration
def test_both_find_the_same(ctrace: Command) -> None:
    for name, seen in _compared(ctrace, *QUICK).items():
        _check(name, seen)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_both_find_the_same_in_a_larger_model(ctrace: Command, name: str) -> None:
    _check(name, _compared(ctrace, name)[name])
