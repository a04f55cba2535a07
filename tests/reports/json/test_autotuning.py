"""Autotuning as JSON: the fixed names, and what is null."""

import json
from typing import Any

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.autotuning_view import autotuning_document
from ctrace.reports.json.printer import render
from tests.support import autotuned


def _data(session: Session, **more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(str(render(autotuning_document(session, **more))))
    return found


def test_an_operation_has_its_choices_winner_and_margin() -> None:
    operation = _data(autotuned.TUNED)["operations"][0]
    assert (operation["op"], operation["shapes"]) == ("mm", ["64x256", "256x512"])
    assert operation["choices"][0] | {"spread": None} == {
        "name": "triton_mm_7",
        "kind": "triton",
        "configuration": autotuned.SETTINGS.format(k=32, warps=4),
        "seconds": 11.2e-6,
        "status": "timed",
        "spread": None,
        "error": None,
    }
    assert operation["choices"][0]["spread"]["runs"] == 100
    assert [each["status"] for each in operation["choices"]][-2:] == ["does_not_fit", "failed_to_compile"]
    assert (operation["winner"], operation["next"], operation["noise"]) == ("triton_mm_7", "mm", "within")
    assert abs(operation["margin"] - (11.3 / 11.2 - 1)) < 1e-9
    assert (operation["taken"], operation["fused"]) == ("triton_mm_3", True)
    assert operation["not_tried"][0]["what"] == "Triton templates with TMA"


def test_one_number_for_each_choice_gives_no_noise() -> None:
    operation = _data(autotuned.TUNED, op="addmm")["operations"][0]
    assert (operation["cached"], operation["noise"]) == (True, "not_known")


def test_kernels_have_configurations_and_the_users_key() -> None:
    kernels = {each["kernel"]: each for each in _data(autotuned.TUNED)["kernels"]}
    softmax = kernels["triton_per_fused__softmax_1"]
    assert (softmax["winner"], softmax["noise"], softmax["cache"]) == (softmax["taken"], "beyond", "miss")
    known = kernels["scale_kernel_0"]
    assert (known["cache"], known["key"], known["user_kernel"]) == ("hit", ["n_elements"], "scale_kernel")
    assert [each["status"] for each in kernels["shift_kernel_0"]["configurations"]] == ["not_timed"] * 2


def test_nothing_is_made_up_where_nothing_was_timed() -> None:
    data = _data(autotuned.TARGET)
    (operation,) = data["operations"]
    assert {each["status"] for each in operation["choices"]} == {"not_timed"}
    assert [operation[name] for name in ("winner", "margin", "noise", "seconds")] == [None] * 4
    assert data["not_timed_because"] == "Nothing ran on h100, so nothing was timed."
    assert data["seconds"] is None
